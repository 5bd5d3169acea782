"""Removes what dead memtrial processes left in the engine: containers, then volumes, then networks.

Touches only objects that carry this installation's label and whose owner no longer runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import docker
from docker.errors import APIError, NotFound

from orchestrator.sandbox.identity import LABEL_INSTALLATION, LABEL_OWNER, owner_is_alive


@dataclass(frozen=True, slots=True)
class Reaped:
    """How many objects were removed."""

    containers: int
    volumes: int
    networks: int

    @property
    def total(self) -> int:
        """All removed objects."""
        return self.containers + self.volumes + self.networks


def reap(client: docker.DockerClient, installation: str) -> Reaped:
    """Removes the orphans of this installation."""
    wanted = {"label": f"{LABEL_INSTALLATION}={installation}"}
    containers = client.api.containers(all=True, filters=wanted)
    volumes = client.api.volumes(filters=wanted).get("Volumes") or []
    networks = client.api.networks(filters=wanted)
    return Reaped(
        containers=_remove(
            containers, lambda item: client.api.remove_container(item["Id"], force=True, v=True)
        ),
        volumes=_remove(volumes, lambda item: client.api.remove_volume(item["Name"], force=True)),
        networks=_remove(networks, lambda item: client.api.remove_network(item["Id"])),
    )


def _remove(items: list[dict[str, Any]], remove: Callable[[dict[str, Any]], object]) -> int:
    removed = 0
    for item in items:
        if owner_is_alive((item.get("Labels") or {}).get(LABEL_OWNER, "")):
            continue
        try:
            remove(item)
            removed += 1
        except NotFound:
            pass
        except APIError as error:
            # Another reaper is at it, or the engine still lets go of a volume: the next start sees to it.
            if error.status_code != 409:
                raise
    return removed

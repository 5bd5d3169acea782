"""Volumes of a trial: made with limits, removed whatever happened. Writes nothing but the engine's own state."""

from __future__ import annotations

import docker
from docker.errors import APIError

from orchestrator.sandbox.containers import EngineFault


def make_volume(
    client: docker.DockerClient, name: str, options: dict[str, str], labels: dict[str, str]
) -> None:
    """Makes a local volume.

    Raises:
        EngineFault: the engine refused.
    """
    try:
        client.api.create_volume(name, driver="local", driver_opts=options, labels=labels)
    except (APIError, OSError) as error:
        raise EngineFault(
            "engine-fault",
            f"could not create a volume: {error}",
            hint="run `memtrial doctor`, then `memtrial resume`",
        ) from error


def drop_volume(client: docker.DockerClient, name: str) -> None:
    """Removes a volume; one that is gone already is fine.

    Raises:
        EngineFault: the engine refused.
    """
    try:
        client.api.remove_volume(name, force=True)
    except (APIError, OSError) as error:
        if getattr(error, "status_code", None) != 404:
            raise EngineFault(
                "engine-fault",
                f"could not remove a volume: {error}",
                hint="run `memtrial clean`",
            ) from error

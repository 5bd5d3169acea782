"""Removes what dead memtrial processes left in the engine: containers, then volumes, then networks.

Touches only objects that carry both our label and this installation's id, checked here again whatever
the engine's filter gave. Why an object goes or stays is one pure function, `judge`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Literal

import docker
from docker.errors import APIError, NotFound

from orchestrator.core.clock import unix_time_s
from orchestrator.core.words import counted
from orchestrator.sandbox.containers import EngineFault
from orchestrator.sandbox.identity import (
    LABEL,
    LABEL_INSTALLATION,
    LABEL_OWNER,
    LABEL_SESSION,
    LABEL_TRIAL,
    TRIAL_OBJECT,
    owner_state,
)

# No trial may last longer than a day (model.task.Limits.wall_s), so after two its owner is gone.
MAX_AGE_S = 2 * 24 * 3600

Kind = Literal["container", "volume", "network"]


@dataclass(frozen=True, slots=True)
class Found:
    """One object of this installation and what is to become of it."""

    kind: Kind
    name: str
    trial: str
    why: str
    remove: bool


@dataclass(frozen=True, slots=True)
class Reaped:
    """What was removed (or, when only looking, would be) and what was left alone."""

    removed: tuple[Found, ...]
    kept: tuple[Found, ...]

    def count(self, kind: Kind) -> int:
        """Returns how many objects of a kind were removed."""
        return sum(item.kind == kind for item in self.removed)

    @property
    def total(self) -> int:
        """All removed objects."""
        return len(self.removed)


def objects_line(reaped: Reaped) -> str:
    """Says how many objects of each kind."""
    kinds: tuple[Kind, ...] = ("container", "volume", "network")
    return ", ".join(counted(reaped.count(kind), kind) for kind in kinds)


def judge(
    labels: dict[str, str], *, installation: str, session: str | None, age_s: float | None
) -> tuple[bool, str] | None:
    """Tells whether an object goes and why; None for an object that is not ours at all.

    Args:
        labels: of the object.
        installation: this installation's id.
        session: a sandbox of this process that has ended, whose objects go although we live.
        age_s: since the object was made; None if the engine did not say.
    """
    if labels.get(LABEL) != TRIAL_OBJECT or labels.get(LABEL_INSTALLATION) != installation:
        return None
    if session is not None and labels.get(LABEL_SESSION) == session:
        return True, "its trial has ended"
    state = owner_state(labels.get(LABEL_OWNER, ""), object_age_s=age_s)
    if state == "alive":
        return False, "its owner runs"
    if state == "dead":
        return True, "its owner is dead"
    if age_s is not None and age_s > MAX_AGE_S:
        return True, f"its owner cannot be seen from here and it is {age_s / 3600:.0f} h old"
    return False, "its owner cannot be seen from here and it is not old enough"


def reap(
    client: docker.DockerClient,
    installation: str,
    *,
    session: str | None = None,
    look_only: bool = False,
) -> Reaped:
    """Removes the orphans of this installation.

    Args:
        client: the engine.
        installation: whose objects to look at.
        session: a sandbox of this process that has ended; what it could not remove goes too.
        look_only: remove nothing.

    Raises:
        EngineFault: the engine does not answer or refuses.
    """
    removed: list[Found] = []
    kept: list[Found] = []
    try:
        for kind, item, remove in _objects(client, installation):
            labels = item.get("Labels") or {}
            verdict = judge(labels, installation=installation, session=session, age_s=_age_s(item))
            if verdict is None:
                continue
            goes, why = verdict
            found = Found(
                kind=kind,
                name=str(item.get("Name") or item.get("Id")),
                trial=labels.get(LABEL_TRIAL, ""),
                why=why,
                remove=goes,
            )
            if not goes:
                kept.append(found)
            elif look_only or _gone(remove):
                removed.append(found)
    except (APIError, OSError) as error:
        raise EngineFault(
            "engine-fault",
            f"expected the engine to list and remove our objects, found: {error}",
            hint="run `memtrial doctor`, then `memtrial clean`",
        ) from error
    return Reaped(tuple(removed), tuple(kept))


def _objects(
    client: docker.DockerClient, installation: str
) -> Iterator[tuple[Kind, dict[str, Any], Callable[[], object]]]:
    """Lists lazily: volumes only after containers are gone, which may have held them."""
    wanted = {"label": [f"{LABEL}={TRIAL_OBJECT}", f"{LABEL_INSTALLATION}={installation}"]}
    api = client.api
    for item in api.containers(all=True, filters=wanted):
        yield "container", item, partial(api.remove_container, item["Id"], force=True, v=True)
    for item in api.volumes(filters=wanted).get("Volumes") or []:
        yield "volume", item, partial(api.remove_volume, item["Name"], force=True)
    for item in api.networks(filters=wanted):
        yield "network", item, partial(api.remove_network, item["Id"])


def _gone(remove: Callable[[], object]) -> bool:
    try:
        remove()
    except NotFound:
        return False
    except APIError as error:
        # Another reaper is at it, or the engine still lets go of a volume: the next start sees to it.
        if error.status_code not in {403, 409}:
            raise
        return False
    return True


def _age_s(item: dict[str, Any]) -> float | None:
    """Returns seconds since an object was made: an integer for containers, RFC 3339 text for others."""
    made = item.get("CreatedAt") or item.get("Created")
    if isinstance(made, int):
        return unix_time_s() - made
    try:
        return unix_time_s() - datetime.fromisoformat(str(made)).timestamp()
    except ValueError:
        return None

"""Reads the two accounts of an agent's container: our program's, from inside, and the engine's.

Pure over what was answered. A container that answers nonsense is not the one that was started.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from orchestrator.core.errors import IntegrityError
from orchestrator.model.isolation import Inventory
from orchestrator.sandbox.harden import AGENT_UID

# Of the engine's description, what a container could tell about others, the task or the host. Storage
# paths of the engine and the trial's own labels of ownership are its business and not the agent's.
CONFIG = (
    "Env",
    "Labels",
    "Cmd",
    "Entrypoint",
    "Hostname",
    "Domainname",
    "User",
    "Image",
    "WorkingDir",
)
HOST_CONFIG = (
    "Binds",
    "Mounts",
    "VolumesFrom",
    "Devices",
    "ExtraHosts",
    "Links",
    "Dns",
    "Tmpfs",
    "NetworkMode",
)


@dataclass(frozen=True, slots=True)
class Account:
    """What is known of an agent's container before `act`.

    Args:
        inventory: what our program found in it.
        contents: path and content (in bounds) of the files of the inventory.
        exposed: what the engine says of it that is scanned.
        runtime: what runs it, by the engine's word.
    """

    inventory: Inventory
    contents: tuple[tuple[str, bytes], ...]
    exposed: bytes
    runtime: str


def account_of(ready: dict[str, Any], described: dict[str, Any], *, drawn_uid: int) -> Account:
    """Returns both accounts in one, with the agent's name for the drawn uid: documents differ by no draw.

    Args:
        ready: our program's first line.
        described: the engine's description.
        drawn_uid: the agent's uid in this container.

    Raises:
        IntegrityError: our program's line is not an inventory with contents.
    """
    inventory = inventory_of(ready)
    if inventory.uid == drawn_uid:
        inventory = inventory.model_copy(update={"uid": AGENT_UID})
    return Account(inventory, contents_of(ready), exposed_by(described), runtime_of(described))


def inventory_of(ready: dict[str, Any]) -> Inventory:
    """Returns the inventory in our program's first line.

    Raises:
        IntegrityError: the line is not such an inventory.
    """
    try:
        found = dict(ready["ready"])
        found["environment"] = [{"name": n, "value": v} for n, v in found["environment"]]
        found["files"] = [_without(file, "content_base64") for file in found["files"]]
        found["mounts"] = [_without(mount, "root") for mount in found["mounts"]]
        return Inventory.model_validate_json(json.dumps(found))
    except (KeyError, TypeError, ValueError, ValidationError) as error:
        raise IntegrityError(
            "trusted-program-failed",
            f"the agent's container: expected its inventory, found something else ({type(error).__name__})",
            hint="run `memtrial images`",
        ) from error


def _without(item: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in item.items() if key != name}


def contents_of(ready: dict[str, Any]) -> tuple[tuple[str, bytes], ...]:
    """Returns path and content of the files that came along with the inventory.

    Raises:
        IntegrityError: a content is not base64.
    """
    try:
        return tuple(
            (str(file["path"]), base64.b64decode(file["content_base64"], validate=True))
            for file in ready["ready"]["files"]
            if "content_base64" in file
        )
    except (KeyError, TypeError, binascii.Error) as error:
        raise IntegrityError(
            "trusted-program-failed",
            "the agent's container: expected contents in base64, found something else",
            hint="run `memtrial images`",
        ) from error


def exposed_by(described: dict[str, Any]) -> bytes:
    """Returns the parts of the engine's description that are scanned, one string a line."""
    config = described.get("Config") or {}
    host = described.get("HostConfig") or {}
    mounts = [
        {
            "Name": mount.get("Name"),
            "Destination": mount.get("Destination"),
            # The source of a volume lies in the engine's own storage, that of a bind mount on the host.
            "Source": mount.get("Source") if mount.get("Type") == "bind" else None,
        }
        for mount in described.get("Mounts") or ()
    ]
    told = {
        "Name": described.get("Name"),
        "Config": {key: config.get(key) for key in CONFIG},
        "HostConfig": {key: host.get(key) for key in HOST_CONFIG},
        "Mounts": mounts,
    }
    return "\n".join(_strings(told)).encode("utf-8", "surrogateescape")


def runtime_of(described: dict[str, Any]) -> str:
    """Returns the container runtime in the engine's description; an engine that names none has one."""
    return str((described.get("HostConfig") or {}).get("Runtime") or "unnamed")


def _strings(value: object) -> Iterator[str]:
    """Yields every string of a JSON value as it is, so that no escape stands between it and the scan."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield str(key)
            yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)

"""Writes the pins of adapters into a registry file; the only writer of `adapter_sha256`.

Reads the code of the adapters that the file names, changes nothing else of it but its layout.
"""

from __future__ import annotations

import json
from pathlib import Path

from orchestrator.core.files import write_atomic
from orchestrator.model.condition import AddedConditions, ConditionRegistry
from orchestrator.pipeline.memory import pinned_now


def pinned(registry: AddedConditions | ConditionRegistry) -> bytes:
    """Returns the bytes of a registry whose arms are pinned to the adapters of this installation."""
    conditions = tuple(
        condition.model_copy(update={"adapter_sha256": pinned_now(condition)})
        for condition in registry.conditions
    )
    document = registry.model_copy(update={"conditions": conditions})
    value = document.model_dump(mode="json", exclude_defaults=True)
    value = {"schema_version": document.schema_version, **value}
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()


def write_pins(path: Path) -> bool:
    """Pins the arms of a registry file; returns whether anything changed.

    Raises:
        DocumentError: it is no registry, shipped or added.
    """
    data = path.read_bytes()
    kind = ConditionRegistry if b'"failure_stages"' in data else AddedConditions
    new = pinned(kind.parse(data, where=path.name))
    if new == data:
        return False
    write_atomic(path, new)
    return True

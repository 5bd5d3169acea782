"""Promise: the published limits are those of the code, and what the room hands out cannot be altered on the way."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from orchestrator.trust import trusted
from orchestrator.trust.gate import before

ROOT = Path(__file__).resolve().parents[3]
ROOM = ROOT / "orchestrator" / "trust"
LIMITS = ROOT / "docs" / "security" / "limits.md"
FILES = sorted(path.relative_to(ROOM).as_posix() for path in ROOM.rglob("*.py"))
# Units, a number of the kernel's, and which step has which number.
NO_LIMITS = frozenset({"DAY_S", "HOUR_S", "MICROS", "INITIAL_USER_NAMESPACE", "PLACES"})
# What is filled in step by step, by one owner; everything else is said once.
FILLED = frozenset({"State", "_State", "Draft"})


def module_of(file: str) -> ModuleType:
    return importlib.import_module(
        ".".join(("orchestrator", "trust", *Path(file).with_suffix("").parts))
    )


def declared(file: str) -> dict[str, Any]:
    """Returns the numbers that a module declares, by name; of a table of numbers each by its key."""
    found: dict[str, Any] = {}
    for node in ast.parse((ROOM / file).read_text(encoding="utf-8")).body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        for target in targets:
            name = getattr(target, "id", "_")
            if name.startswith(("_", "RESOLVE_")) or name in NO_LIMITS:
                continue
            value = getattr(module_of(file), name)
            if isinstance(value, dict):
                found |= {f"{name}[{key}]": v for key, v in value.items() if type(v) is int}
            elif type(value) in {int, float}:
                found[name] = value
    return found


def published() -> dict[str, float]:
    rows = re.findall(
        r"^\| [^|]+ \| ([\d,]+) [a-z]+ \| `([^`]+)` `([^`]+)` \|$",
        LIMITS.read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    return {f"{file} {name}": float(value.replace(",", "")) for value, file, name in rows}


def test_the_published_limits_are_those_of_the_code_and_none_is_missing():
    of_code = {f"{file} {name}": v for file in FILES for name, v in declared(file).items()}
    assert published() == of_code


@pytest.mark.parametrize("file", [f for f in FILES if "@dataclass" in (ROOM / f).read_text()])
def test_what_is_handed_on_is_frozen_and_takes_nothing_that_was_not_declared(file):
    module = module_of(file)
    made = [
        found
        for found in vars(module).values()
        if dataclasses.is_dataclass(found) and found.__module__ == module.__name__
    ]
    assert made
    for one in made:
        assert isinstance(one, type)
        assert "__slots__" in vars(one), one
        # What is frozen has its own way to set attributes, which refuses.
        assert ("__setattr__" in vars(one)) is (one.__name__ not in FILLED), one


def test_the_kernel_is_asked_by_its_own_numbers():
    # include/uapi/linux/openat2.h and include/linux/proc_ns.h
    rules = (trusted.RESOLVE_NO_XDEV, trusted.RESOLVE_NO_MAGICLINKS, trusted.RESOLVE_NO_SYMLINKS)
    assert (*rules, trusted.RESOLVE_BENEATH) == (1, 2, 4, 8)
    assert before.INITIAL_USER_NAMESPACE == 4_026_531_837

"""Every hostile input of the gate by name: what it changes, why it must be refused, by which step and code.

`build_cases.py` writes the case directories from here; `test_cases.py` runs each directory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from tests.gate.world import Ingredients, World

T = TypeVar("T", Ingredients, World)

Before = Callable[[Ingredients], object]
After = Callable[[World], object]


@dataclass(frozen=True, slots=True)
class Attack:
    """One hostile input. `before` changes what the world is made from, `after` the world itself."""

    name: str
    why: str
    check: int
    code: str
    before: Before | None = None
    after: After | None = None


def before(name: str, check: int, code: str, why: str, change: Before) -> Attack:
    return Attack(name, why, check, code, before=change)


def after(name: str, check: int, code: str, why: str, change: After) -> Attack:
    return Attack(name, why, check, code, after=change)


def in_turn(*steps: Callable[[T], object]) -> Callable[[T], None]:
    """Does several things, one after the other."""

    def change(what: T) -> None:
        for step in steps:
            step(what)

    return change


def catalogue() -> dict[str, Attack]:
    """Returns all attacks by the name of their case, in order."""
    from tests.gate import (
        attacks_costly,
        attacks_documents,
        attacks_fields,
        attacks_host,
        attacks_machine,
        attacks_more,
        attacks_root,
    )

    listed = [
        *attacks_host.ATTACKS,
        *attacks_root.ATTACKS,
        *attacks_documents.ATTACKS,
        *attacks_fields.ATTACKS,
        *attacks_machine.ATTACKS,
        *attacks_costly.ATTACKS,
        *attacks_more.ATTACKS,
    ]
    named = {f"{number:03d}-{a.name}_refused": a for number, a in enumerate(listed, start=1)}
    if len({a.name for a in listed}) != len(listed):
        raise ValueError("two attacks of one name")
    return named

"""Promise: of the sixty kinds of hostile input all but one have a case directory, or a test where none can hold it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.gate.build_cases import CASES
from tests.gate.catalogue import catalogue
from tests.gate.kinds import KINDS

ROOT = Path(__file__).resolve().parents[2]
NAMES = frozenset(attack.name for attack in catalogue().values())
DIRECTORIES = frozenset(
    path.name.split("-", 1)[1].removesuffix("_refused") for path in CASES.iterdir()
)


def shown(pattern: str) -> set[str]:
    if pattern.endswith("*"):
        return {name for name in DIRECTORIES if name.startswith(pattern[:-1])}
    return {pattern} & DIRECTORIES


def test_there_are_sixty_kinds():
    assert list(KINDS) == list(range(1, 61))


def test_one_kind_is_met_and_not_shown():
    assert [number for number, kind in KINDS.items() if kind.met_by] == [12]


@pytest.mark.parametrize("number", KINDS)
def test_a_kind_is_shown(number):
    kind = KINDS[number]
    assert bool(kind.cases or kind.tests) is not bool(kind.met_by)
    for pattern in kind.cases:
        assert shown(pattern), f"{kind.what}: no case directory {pattern}"
    for named in kind.tests:
        path, _, function = named.partition("::")
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        assert function in {n.name for n in tree.body if isinstance(n, ast.FunctionDef)}, named


def test_all_encodings_of_small_order_are_shown_for_owners_and_approvers():
    for pattern in KINDS[38].cases:
        assert len(shown(pattern)) == 14

"""Promise: an arm that may be given more than the compared arms is named with its figures, and no other."""

from __future__ import annotations

import json

import pytest

from orchestrator.model.condition import Condition
from orchestrator.model.symmetry import asked_k, outside_parity
from tests.unit.model.sound import SOUND

MOST = 1000


def arm(name: str, role: str, *, tokens: int | None = 700, k: int | None = 12) -> Condition:
    """A program of somebody else: it is asked for as many items as there may be, unless it says how many."""
    _, fields = SOUND["arm"]
    budget = {"unit": "o200k_base", "max_tokens": tokens or 1}
    told = {**fields, "id": name, "role": role, "budget": budget, "retrieve_k": k}
    made = Condition.model_validate_json(json.dumps(told))
    without = {} if tokens else {"budget": None}
    return made.model_copy(update={"adapter_kind": "command", **without})


COMPARED = (arm("a", "primary"), arm("b", "control"), arm("none", "control", tokens=None))


@pytest.mark.parametrize(
    ("mine", "told"),
    [
        (arm("mine", "diagnostic"), ()),
        (arm("mine", "diagnostic", tokens=None), ()),
        (arm("mine", "diagnostic", tokens=1500), ("mine (1500 tokens, not 700)",)),
        (arm("mine", "diagnostic", k=None), ("mine (1000 items, not 12)",)),
        (
            arm("mine", "diagnostic", tokens=1500, k=30),
            ("mine (1500 tokens, not 700; 30 items, not 12)",),
        ),
        (arm("mine", "control", tokens=1500), ()),
    ],
    ids=["alike", "no memory", "more tokens", "no k", "both", "compared itself"],
)
def test_a_diagnostic_arm_is_named_where_it_differs(mine, told):
    assert outside_parity((*COMPARED, mine)) == told


def test_where_nothing_is_compared_nothing_differs():
    assert outside_parity((arm("mine", "diagnostic"),)) == ()


def test_several_figures_of_the_compared_arms_are_all_named():
    other = (*COMPARED, arm("c", "primary", tokens=900))
    assert outside_parity((*other, arm("mine", "diagnostic", tokens=1500))) == (
        "mine (1500 tokens, not 700 or 900)",
    )


def test_one_of_ours_that_does_not_search_is_asked_for_nothing():
    silent = arm("mine", "diagnostic", k=None)
    assert asked_k(silent) == MOST
    assert asked_k(silent.model_copy(update={"adapter_kind": "builtin"})) is None
    assert asked_k(arm("none", "control", tokens=None)) == arm("x", "control").retrieve_k

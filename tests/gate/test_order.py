"""Promise: a step that comes before what it rests on refuses, whatever it is; no order of steps lets anything by."""

from __future__ import annotations

import pytest

from orchestrator.core.errors import ApprovalRefused
from orchestrator.trust.gate.asked import State, known, refuse
from orchestrator.trust.gate.official import STEPS
from tests.gate.world import ingredients, make_world


@pytest.mark.parametrize("name", [name for name, _ in STEPS if name not in {"host", "repository"}])
def test_a_step_without_those_before_it_refuses(clean_folder, name):
    world = make_world(clean_folder, ingredients())
    state = State(world.asked())
    if name == "worktree":
        state.files = {"none.json": b""}
    with pytest.raises(ApprovalRefused) as refused:
        dict(STEPS)[name](state)
    expected = {"worktree": "file-missing", "document": "json-malformed"}
    assert refused.value.reference == expected.get(name, "step-out-of-order")


def test_what_is_known_is_given_and_a_refusal_always_says_what_to_do_next():
    assert known(0) == 0
    assert refuse("x", "a", "b").hint
    assert refuse("x", "a", "b", hint="c").hint == "c"
    assert "expected a, found b" in refuse("x", "a", "b").message

"""Promise: what is told by hand of where a fact went follows the rule by which trials are charged."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from orchestrator.model.lifecycle import RankedItem, StoreDump
from orchestrator.model.task import GoldFact, Key
from orchestrator.pipeline.whereabouts import whereabouts
from tests.unit.scoring.test_followed_facts import CAPTURED, HALVES, HISTORY, SHOWN, stored

FACT = GoldFact(
    id="f1",
    kind="coined",
    statement="s",
    supporting_event_ids=("e1", "e2"),
    matchers=("alpha", "beta"),
)
KEY: Any = SimpleNamespace(card=SimpleNamespace(gold_facts=(FACT,)))


def told(*included: str) -> tuple[dict[str, str], str | None]:
    """Where the fact went whose two halves are ranked, by items that say nothing of their events."""
    memories = stored(HALVES)
    items = tuple(RankedItem(memory_id=m.memory_id, text=m.text) for m in memories)
    context = SimpleNamespace(included=tuple(SimpleNamespace(item_id=name) for name in included))
    lived: Any = SimpleNamespace(
        captures=lambda: CAPTURED,
        description=lambda: SHOWN,
        extraction=lambda: SimpleNamespace(candidates=()),
        dump=lambda: StoreDump(memories=memories),
        ranked=lambda: SimpleNamespace(items=items),
        remembered=SimpleNamespace(captured_events=2, context=context),
    )
    key: Key = KEY
    (found,) = whereabouts(lived, HISTORY, key)
    return dict(found.seen), found.lost_at


def test_items_that_say_nothing_of_their_events_rest_on_those_of_the_store():
    seen, lost = told("m1", "m2")
    assert (seen["retrieved"], seen["in the context"], lost) == ("m1, m2", "m1, m2", None)


@pytest.mark.parametrize("half", ["m1", "m2"])
def test_a_fact_half_of_which_was_left_out_does_not_reach_the_agent(half):
    seen, lost = told(half)
    assert (seen["in the context"], lost) == ("no", "in the context")

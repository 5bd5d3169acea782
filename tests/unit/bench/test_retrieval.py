"""Promise: a memory counts as stating a fact if it says all of it and rests on that very event."""

from __future__ import annotations

import pytest

from bench.retrieval import (
    DEVELOPED_ON,
    crowd,
    evidence_of,
    mark_of,
    novelty_of,
    states,
)
from orchestrator.core.places import fixtures_root
from orchestrator.memory.sessions import sessions_of
from orchestrator.model.lifecycle import StoredMemory
from orchestrator.model.task import GoldFact
from orchestrator.sources.loader import list_tasks, load_task

FACT = GoldFact(
    id="f", kind="selective", statement="the limit is 41 per shelf", supporting_event_ids=("e1",), matchers=("41", "shelf")
)  # fmt: skip


def memory(text: str, *events: str) -> StoredMemory:
    return StoredMemory(
        memory_id="m1",
        text=text,
        kind="fact",
        scope="project",
        status="active",
        evidence_event_ids=events,
    )


@pytest.mark.parametrize(
    ("found", "counts"),
    [
        (memory("41 on each shelf", "e1"), True),
        (memory("41 on each table", "e1"), False),
        (memory("41 on each shelf", "e2"), False),
        (memory("41 on each shelf", "other-e1"), False),
    ],
)
def test_a_memory_states_a_fact_in_full_and_from_its_event(found, counts):
    assert states(FACT, frozenset({"e1"}), found) is counts


def test_in_a_crowd_the_event_of_another_history_is_no_evidence():
    tasks = [load_task(fixtures_root(), name) for name in ("depotfeed-returns", "cachetools-shelf")]
    heard = crowd(tasks)
    named = [evidence_of(heard, t, f) for t in tasks for f in t.key.card.gold_facts[:1]]
    events = {event.event_id for session in heard.sessions for event in session.events}
    assert all(names and names <= events for names in named)
    assert not named[0] & named[1]


def test_a_fact_is_unseen_only_if_its_history_shares_no_session_with_what_was_developed_on():
    tasks = [load_task(fixtures_root(), name) for name in list_tasks(fixtures_root())]
    seen = {mark_of(s) for t in tasks if t.card.id in DEVELOPED_ON for s in sessions_of(t.history)}
    novelty = {
        (t.card.id, f.id): novelty_of(t, f, seen) for t in tasks for f in t.key.card.gold_facts
    }
    unseen = {task for (task, _), much in novelty.items() if much == 3}
    assert unseen == {"depotfeed-returns", "rostertext-board-line"}
    assert {much for (task, _), much in novelty.items() if task == "cachetools-account-key"} == {1}

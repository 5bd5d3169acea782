"""Promise: a fact was given to an agent only where all that holds it was, and an echo is no citation of the agent's."""

from __future__ import annotations

import json
from typing import Any

import pytest

from orchestrator.memory.sessions import PROJECT
from orchestrator.model.attribution import Failure
from orchestrator.model.lifecycle import (
    Candidate,
    Capabilities,
    CaptureReport,
    CaptureReports,
    Description,
    DroppedItem,
    EventCapture,
    ExtractionReport,
    Observed,
    StoredMemory,
    StoreDump,
)
from orchestrator.model.memory import Remembered
from orchestrator.model.task import Episode, Event, History
from orchestrator.model.toolcalls import ServedCall, ToolLog
from orchestrator.model.trace import MemoryTrace
from orchestrator.scoring.attribution import charge
from orchestrator.scoring.given import Asked
from orchestrator.scoring.trace import Seen, Stages, trace_of
from tests.unit.scoring.conftest import make_injection
from tests.unit.scoring.test_attribution import failed

AT = "2026-01-05T09:00:00Z"
HISTORY = History(
    task_id="t",
    episodes=(
        Episode(
            episode_id="s",
            started_at=AT,
            events=tuple(
                Event(event_id=name, at=AT, role="user", text=name) for name in ("e1", "e2")
            ),
        ),
    ),
)
REMEMBERED = Remembered(
    condition_id="c", adapter="reference", captured_events=2, store_sha256=None, items=()
)
HALVES = {"m1": "the first is alpha", "m2": "the second is beta"}
SHOWN = Description(
    adapter="reference",
    version="1",
    capabilities=Capabilities(timestamps=True, update=True, delete=True, scopes=True),
    shows=tuple(Observed),
    information="raw",
)
CAPTURED = CaptureReports(
    reports=(
        CaptureReport(
            session_id="s",
            events=tuple(EventCapture(event_id=e, outcome="captured") for e in ("e1", "e2")),
        ),
    )
)
NOTE = '- [mem:m7] call it "Café"'


def stored(notes: dict[str, str], **second: Any) -> tuple[StoredMemory, ...]:
    """A memory for each note, active in this project, the n-th of event n; `second` changes the second."""
    return tuple(
        StoredMemory(
            memory_id=name,
            kind="fact",
            text=text,
            **{"scope": PROJECT, "status": "active", **(second if number == 2 else {})},
            evidence_event_ids=(f"e{number}",),
        )
        for number, (name, text) in enumerate(notes.items(), 1)
    )


def proposed(memories: tuple[StoredMemory, ...], last: Any) -> ExtractionReport:
    """Every memory as a candidate; `last` is what was decided on the second."""
    return ExtractionReport(
        extractor="rules",
        candidates=tuple(
            Candidate(
                candidate_id=f"c{number}",
                kind="fact",
                text=memory.text,
                scope=memory.scope,
                evidence_event_ids=memory.evidence_event_ids,
                decision=decision,
                rule="r1",
                memory_id=memory.memory_id if decision == "promote" else None,
            )
            for number, (memory, decision) in enumerate(
                zip(memories, ("promote", last), strict=False), 1
            )
        ),
    )


@pytest.fixture
def followed(key):
    """Follows a fact that two memories hold together through the answers of tools."""
    fact = key.card.gold_facts[0].model_copy(
        update={"supporting_event_ids": ("e1", "e2"), "matchers": ("alpha", "beta")}
    )
    stale = key.card.stale_facts[0].model_copy(
        update={"event_ids": ("e1", "e2"), "matchers": ("gamma", "delta")}
    )
    card = key.card.model_copy(update={"gold_facts": (fact,), "stale_facts": (stale,)})

    def follow(*calls: ServedCall, notes: dict[str, str] = HALVES, output: bytes = b"", **second: Any) -> MemoryTrace:  # fmt: skip
        decision = second.pop("decision", "promote")
        memories = stored(notes, **second)
        log = ToolLog(
            server="memory", adapter="reference", tools=(), connected=1, listed=1, calls=calls, refused=0
        )  # fmt: skip
        seen = Seen(
            trial="t",
            history=HISTORY,
            key=key.model_copy(update={"card": card}),
            injection=make_injection(""),
            diff=b"",
            output=output,
            scope=PROJECT,
            k=12,
            asked=Asked(log, frozenset(call.seq for call in calls)),
        )
        stages = Stages(
            REMEMBERED,
            description=SHOWN,
            captures=CAPTURED,
            extraction=proposed(memories, decision),
            dump=StoreDump(memories=memories if decision == "promote" else memories[:1]),
        )
        return trace_of(stages, seen)

    return follow


def answer(seq: int, *included: str, left_out: tuple[str, ...] = (), notes=HALVES) -> ServedCall:
    return ServedCall(
        seq=seq,
        tool="memory_search",
        arguments='{"query":"q"}',
        item_ids=included,
        left_out=tuple(
            DroppedItem(item_id=name, tokens=9, reason="over_budget") for name in left_out
        ),
        text="".join(f"- [mem:{name}] {notes[name]}\n" for name in included),
    )


def test_a_fact_half_of_which_was_left_out_was_in_no_answer(followed):
    trace = followed(answer(0, "m1", left_out=("m2",)))
    fact = trace.facts[0]
    assert (fact.ranked, fact.included, fact.delivered) == (("m1", "m2"), (), False)
    found = charge(trace, failed(), oracle=True)
    assert found.failure is Failure.CONTEXT_BUDGET_DROPPED
    assert "dropped m2 (over_budget)" in found.evidence[0]


def test_a_fact_whose_halves_came_in_two_answers_was_given(followed):
    fact = followed(answer(0, "m1", left_out=("m2",)), answer(1, "m2")).facts[0]
    assert (fact.included, fact.dropped, fact.delivered) == (("m1", "m2"), (), True)


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        ({"status": "superseded"}, (Failure.UPDATE_NOT_APPLIED, "wrongly-superseded")),
        ({"scope": "elsewhere"}, (Failure.WRONG_SCOPE, None)),
        ({"decision": "hold"}, (Failure.DURABLE_FACT_MISSED, "held")),
    ],
    ids=["superseded", "elsewhere", "held"],
)
def test_a_fact_half_of_which_was_lost_in_the_store_was_lost_there(followed, second, expected):
    found = charge(followed(answer(0, "m1"), **second), failed(), oracle=True)
    assert (found.failure, found.subreason) == expected


def test_of_two_memories_that_hold_a_fact_each_one_is_enough(followed):
    notes = {"m1": "alpha and beta", "m2": "beta and alpha"}
    fact = followed(answer(0, "m1", left_out=("m2",), notes=notes), notes=notes).facts[0]
    assert (fact.ranked, fact.included) == (("m1", "m2"), ("m1",))


@pytest.mark.parametrize(
    ("included", "told"), [(("m1",), ()), (("m1", "m2"), ("m1", "m2"))], ids=["half", "whole"]
)
def test_an_old_value_half_of_which_was_left_out_was_not_given(followed, included, told):
    notes = {"m1": "gamma before", "m2": "delta after"}
    left_out = tuple(name for name in notes if name not in included)
    trace = followed(answer(0, *included, left_out=left_out, notes=notes), notes=notes)
    (stale,) = trace.facts[0].stale
    assert (stale.active, stale.included) == (("m1", "m2"), told)


@pytest.mark.parametrize("inner", [True, False], ids=["inner escaped", "inner as it is"])
@pytest.mark.parametrize("outer", [True, False], ids=["outer escaped", "outer as it is"])
def test_an_answer_that_is_echoed_in_json_in_json_is_no_citation(followed, inner, outer):
    call = answer(0, "m7", notes={"m7": NOTE.removeprefix("- [mem:m7] ")})
    echo = json.dumps({"x": json.dumps({"t": NOTE}, ensure_ascii=inner)}, ensure_ascii=outer)
    assert followed(call, output=echo.encode()).cited == ()


def test_what_the_agent_says_beside_the_echo_is(followed):
    call = answer(0, "m7", notes={"m7": NOTE.removeprefix("- [mem:m7] ")})
    output = json.dumps({"t": NOTE}) + " as [mem:m7] says"
    assert followed(call, output=output.encode()).cited == ("m7",)

"""Promise: a fact survives capture only as far as the events were kept, to the character that was cut off."""

from __future__ import annotations

import pytest

from orchestrator.model.lifecycle import CaptureReport, CaptureReports, EventCapture
from orchestrator.model.task import Episode, Event, GoldFact, History, ToolCall
from orchestrator.scoring.captured import captured_of

AT = "2026-01-05T09:00:00Z"
LAST = "the count is 7"
FACT = GoldFact(
    id="f1",
    kind="coined",
    statement="The count is 7.",
    supporting_event_ids=("e1", "e2"),
    matchers=("parcel", "count is 7"),
)


def captured(*kept: EventCapture, last: str = LAST, tool: ToolCall | None = None):
    """The two events of the fact, with what capture reports of them."""
    events = (
        Event(event_id="e1", at=AT, role="user", text="About a parcel:"),
        Event(event_id="e2", at=AT, role="tool" if tool else "user", text=last, tool=tool),
    )
    history = History(
        task_id="t", episodes=(Episode(episode_id="s", started_at=AT, events=events),)
    )
    return captured_of(
        history, CaptureReports(reports=(CaptureReport(session_id="s", events=kept),))
    )


def whole(event_id: str, cut: int = 0) -> EventCapture:
    return EventCapture(event_id=event_id, outcome="captured", cut_characters=cut)


def test_a_fact_whose_events_were_kept_to_their_ends_survives():
    found = captured(whole("e1"), whole("e2"))
    assert (found.of(FACT), found.survived(FACT)) == (("e1", "e2"), True)


def test_a_fact_of_which_the_last_character_was_cut_off_does_not():
    found = captured(whole("e1"), whole("e2", 1))
    assert (found.of(FACT), found.survived(FACT)) == (("e1", "e2"), False)


def test_a_cut_behind_the_fact_takes_nothing_from_it():
    assert captured(whole("e1"), whole("e2", 6), last=LAST + ", yes.").survived(FACT)


def test_white_space_at_the_end_is_not_what_was_cut_off():
    assert not captured(whole("e1"), whole("e2", 1), last=LAST + "   ").survived(FACT)


def test_the_call_of_a_tool_is_kept_before_the_end_of_its_output():
    call = ToolCall(name="bash", input="the count is 7", exit_code=0)
    kept = captured(whole("e1"), whole("e2", 3), last="ok.", tool=call)
    assert kept.survived(FACT)


@pytest.mark.parametrize("cut", [15, 10_000])
def test_of_an_event_that_was_cut_off_whole_nothing_survives(cut):
    assert not captured(whole("e1"), whole("e2", cut)).survived(FACT)


def test_a_dropped_event_is_not_captured():
    dropped = EventCapture(event_id="e2", outcome="dropped", reason="empty")
    found = captured(whole("e1"), dropped)
    assert (found.of(FACT), found.survived(FACT)) == (("e1",), False)


def test_without_a_report_nothing_was_captured():
    found = captured()
    assert (found.of(FACT), found.survived(FACT)) == ((), False)

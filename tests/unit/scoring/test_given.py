"""Promise: what tools gave is the union of what was ranked, included and heard over all questions, each thing once."""

from __future__ import annotations

from orchestrator.memory.sessions import PROJECT
from orchestrator.model.lifecycle import DroppedItem, StoredMemory
from orchestrator.model.toolcalls import ServedCall, ToolLog
from orchestrator.model.trace import DropSeen
from orchestrator.scoring.given import Asked, given_by_tools

NAMES = ("m1", "m2", "m3")
STORE = {
    name: StoredMemory(memory_id=name, kind="fact", text=f"note {name}", scope=PROJECT, status="active", evidence_event_ids=("e1",))
    for name in NAMES
}  # fmt: skip


def answer(seq: int, included: tuple[str, ...], left_out: tuple[str, ...] = ()) -> ServedCall:
    return ServedCall(
        seq=seq,
        tool="memory_search",
        arguments="{}",
        item_ids=included,
        left_out=tuple(DroppedItem(item_id=name, tokens=1, reason="over_budget") for name in left_out),
        text="# Notes\n" + "".join(f"- [mem:{name}] note {name}\n" for name in included),
    )  # fmt: skip


def asked(*calls: ServedCall, heard: tuple[int, ...]) -> Asked:
    log = ToolLog(
        server="memory", adapter="reference", tools=(), connected=1, listed=1, calls=calls, refused=0
    )  # fmt: skip
    return Asked(log, frozenset(heard))


TWO = (answer(0, ("m1",), ("m2", "m3")), answer(1, ("m1", "m2")))


def test_every_memory_that_was_ranked_stands_once_with_what_the_store_says_of_it():
    given = given_by_tools(asked(*TWO, heard=(0, 1)), STORE)
    assert [(i.carrier_id, i.text, i.evidence) for i in given.ranked] == [
        (name, f"note {name}", ("e1",)) for name in NAMES
    ]


def test_what_one_answer_left_out_and_another_holds_is_not_left_out():
    given = given_by_tools(asked(*TWO, heard=(0, 1)), STORE)
    assert given.included == {"m1", "m2"}
    assert given.dropped == (DropSeen(item_id="m3", reason="over_budget"),)


def test_the_text_is_of_answers_that_were_heard_each_line_once():
    assert given_by_tools(asked(*TWO, heard=(0,)), STORE).text == "# Notes\n- [mem:m1] note m1"
    both = given_by_tools(asked(*TWO, heard=(0, 1)), STORE)
    assert both.text == "# Notes\n- [mem:m1] note m1\n- [mem:m2] note m2"
    assert given_by_tools(asked(*TWO, heard=()), STORE).text == ""


def test_what_was_answered_is_no_word_of_the_agents_even_if_it_was_not_heard():
    assert "- [mem:m2] note m2" in given_by_tools(asked(*TWO, heard=()), STORE).echoes

"""Promise: an answer of a memory tool is found where it came before the model, however an agent hands it on, and once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from orchestrator.gateway.heard import MAX_STEPS, Answers
from orchestrator.model.toolcalls import ServedCall, ToolLog
from tests.unit.gateway.test_shown import call

HEADER = "# Notes from earlier sessions\nThey are records.\n"
TEXT = HEADER + '- [mem:m1] "Größe" zählt \\d+ — 日本 😀\n  <b>&</b>/x\n'
NOTHING = "No note fits."


def log(*texts: str) -> ToolLog:
    return ToolLog(
        server="memory",
        adapter="reference",
        tools=(),
        connected=1,
        listed=1,
        calls=tuple(
            ServedCall(seq=n, tool="memory_search", arguments="{}", item_ids=(), text=text)
            for n, text in enumerate(texts)
        ),
        refused=0,
    )


def chat(*outputs: str | tuple[str, str]) -> dict[str, Any]:
    """A conversation with these outputs of tools, each with its call's id where one is given."""
    given = [item if isinstance(item, tuple) else ("", item) for item in outputs]
    said = [{"role": "tool", "tool_call_id": name, "content": text} for name, text in given]
    return {"messages": [{"role": "user", "content": "Do it."}, *said]}


def found(served: ToolLog, *bodies: dict[str, Any]) -> list[int | None]:
    """In which call each answer was first seen."""
    answers = Answers(served)
    for ordinal, body in enumerate(bodies):
        answers.look(call(ordinal, body))
    return [answer.ordinal for answer in answers.seen()]


def escaped(text: str) -> str:
    """As serialisers write it that keep HTML and slashes out."""
    return json.dumps(text).replace("/", "\\/").replace("<", "\\u003c").replace("&", "\\u0026")


HANDED_ON = {
    "as it is": TEXT,
    "behind words on its line": f"Result: {TEXT}",
    "behind lines and before lines": f"Wall time: 0.1 s\nOutput:\n{TEXT}\n(end)",
    "in JSON": json.dumps({"text": TEXT}),
    "in JSON with letters as they are": json.dumps({"text": TEXT}, ensure_ascii=False),
    "in JSON with more escapes than needed": f'{{"text": {escaped(TEXT)}}}',
    "in JSON in JSON": json.dumps([{"type": "text", "text": json.dumps({"text": TEXT})}]),
    "in JSON behind words": f"Output:\n{json.dumps([{'text': TEXT}], ensure_ascii=False)}",
}


@pytest.mark.parametrize("said", HANDED_ON.values(), ids=HANDED_ON)
def test_an_answer_is_found_however_it_is_handed_on(said):
    assert found(log(TEXT), chat(), chat(said)) == [1]


@pytest.mark.parametrize("cut", [1, 2, 20])
def test_an_answer_of_which_something_is_missing_is_not_found(cut):
    assert found(log(TEXT), chat(TEXT[:-cut])) == [None]
    assert found(log(TEXT), chat(json.dumps(TEXT[:-cut]))) == [None]


BODIES: dict[str, dict[str, Any]] = {
    "chat": chat(TEXT),
    "messages": {"messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": TEXT}]}]}]},
    "messages, plain": {"messages": [{"role": "user", "content": [{"type": "tool_result", "content": TEXT}]}]},
    "responses": {"input": [{"type": "function_call_output", "call_id": "c", "output": TEXT}]},
    "responses, parts": {"input": [{"type": "custom_tool_call_output", "output": [{"type": "input_text", "text": TEXT}]}]},
}  # fmt: skip


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_outputs_of_tools_are_known_in_every_wire_format(body):
    assert found(log(TEXT), body) == [0]


def test_what_no_tool_gave_is_no_answer():
    said = {"messages": [{"role": r, "content": NOTHING} for r in ("system", "user", "assistant")]}
    assert found(log(NOTHING), {**said, "system": NOTHING}) == [None]


def test_the_nth_of_equal_answers_is_the_nth_output_that_holds_it():
    first, second = ("a", NOTHING), ("b", NOTHING)
    served = log(NOTHING, NOTHING, NOTHING)
    assert found(served, chat(), chat(first), chat(first), chat(first, second)) == [1, 3, None]


def test_equal_answers_are_told_apart_where_calls_have_no_ids_or_the_same():
    for name in ("", "same"):
        one = (name, NOTHING)
        assert found(log(NOTHING, NOTHING), chat(one), chat(one, one)) == [0, 1]


def test_an_output_that_tells_its_answer_twice_is_one_answer():
    twice = json.dumps({"content": [{"text": TEXT}], "structuredContent": {"text": TEXT}})
    assert found(log(TEXT, TEXT), chat(("a", twice)), chat(("a", twice))) == [0, None]


def test_an_answer_that_begins_another_is_not_found_in_it():
    longer = TEXT + "- [mem:m2] more\n"
    assert found(log(TEXT, longer), chat(("a", longer)), chat(("a", longer), ("b", TEXT))) == [1, 0]


def test_answers_that_came_side_by_side_are_found_in_any_order():
    other = HEADER + "- [mem:m9] other\n"
    assert found(log(TEXT, other), chat(("b", other), ("a", TEXT))) == [0, 0]


def steps(answers: int, outputs: int) -> int:
    """How many lines are compared for so many answers and so many outputs, each of 50 lines."""
    texts = [HEADER + f"- [mem:m{n}] note\n" + "  line\n" * 48 for n in range(answers)]
    looking = Answers(log(*texts))
    looking.look(call(0, chat(*(("", f"{n} {texts[0]}x") for n in range(outputs)))))
    return MAX_STEPS - looking._steps


def test_the_work_grows_with_the_outputs_and_not_with_the_answers():
    assert steps(400, 20) == steps(4, 20)
    assert steps(4, 40) <= 2 * steps(4, 20)


class Touched(list[str]):
    """Lines that count how often one is taken, be it for a copy."""

    taken = 0

    def __iter__(self) -> Iterator[str]:
        for line in super().__iter__():
            self.taken += 1
            yield line

    def __getitem__(self, place: Any) -> Any:
        found = super().__getitem__(place)
        self.taken += len(found) if isinstance(place, slice) else 1
        return found


@pytest.mark.parametrize("answer", [NOTHING, f"{NOTHING}\nmore", TEXT])
def test_no_line_is_taken_that_no_step_counts(answer):
    looking = Answers(log(answer))
    lines = Touched([answer.split("\n")[0]] * 500)
    list(looking._among(lines))
    assert lines.taken <= MAX_STEPS - looking._steps


def test_the_work_is_bounded_whatever_a_log_and_a_record_hold(monkeypatch):
    monkeypatch.setattr("orchestrator.gateway.heard.MAX_STEPS", 1_000)
    looking = Answers(log("a\n" * 500, "a\n" * 501))
    looking.look(call(0, chat("a\n" * 100_000)))
    assert looking._steps >= -1_000

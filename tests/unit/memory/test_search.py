"""Search: the task's words find events; nothing in a prompt is search syntax."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.memory.raw_fts import RawFtsAdapter
from orchestrator.memory.sqlite.capture import capture, open_store
from orchestrator.memory.sqlite.search import query_terms, search
from orchestrator.model.condition import Condition, MemoryBudget
from orchestrator.model.task import Episode, Event, History, ToolCall

AT = "2026-01-05T09:00:00Z"


def make_history(*texts: str) -> History:
    events = tuple(
        Event(event_id=f"e{i}", at=AT, role="user", text=text) for i, text in enumerate(texts)
    )
    return History(task_id="t", episodes=(Episode(episode_id="ep", started_at=AT, events=events),))


@pytest.fixture
def found() -> Callable[..., list[str]]:
    def run(prompt: str, *texts: str, k: int = 10) -> list[str]:
        with closing(open_store()) as store:
            capture(store, make_history(*texts))
            return [hit.event_id for hit in search(store, prompt, k)]

    return run


@pytest.mark.parametrize(
    ("prompt", "terms"),
    [
        ("Add transfer_eta to humanize.time", ["add", "transfer", "eta", "humanize", "time"]),
        ("rename transferEta and HTTPServer", ["rename", "transfer", "eta", "http", "server"]),
        ("What should we do about it?", []),
        ("Größe naïve", ["größe", "naïve"]),
        ("eta ETA Eta", ["eta"]),
    ],
)
def test_a_query_holds_the_content_words_once_with_identifiers_cut(
    prompt: str, terms: list[str]
) -> None:
    assert query_terms(prompt) == terms


def test_an_identifier_finds_its_other_spellings(found: Callable[..., list[str]]) -> None:
    assert found("call transfer_eta", "the transferEta helper", "unrelated") == ["e0"]
    assert found("call transferEta", "the transfer_eta helper", "transferEta itself") == [
        "e1",
        "e0",
    ]


def test_inflected_words_find_one_another(found: Callable[..., list[str]]) -> None:
    assert found("rounding waits", "the wait is rounded up", "unrelated") == ["e0"]


def test_input_and_output_of_tools_are_searched() -> None:
    tool = ToolCall(name="bash", input="grep -n parked", exit_code=1)
    event = Event(event_id="a", at=AT, role="tool", text="upload widget died", tool=tool)
    with closing(open_store()) as store:
        capture(
            store,
            History(
                task_id="t", episodes=(Episode(episode_id="ep", started_at=AT, events=(event,)),)
            ),
        )
        assert [len(search(store, word, 5)) for word in ("parked", "widget", "absent")] == [1, 1, 0]


def test_equal_scores_come_in_the_order_of_the_history(found: Callable[..., list[str]]) -> None:
    assert found("parked", "parked a", "parked b", "parked c", k=2) == ["e0", "e1"]


@pytest.mark.parametrize(
    "prompt",
    [
        '" OR text:*',
        "NEAR(a b, 2)",
        "parked* NOT x",
        "^parked",
        "a AND b OR (c",
        "-",
        '""',
        "x' --",
        "{a b}: c",
    ],
)
def test_search_syntax_in_a_prompt_has_no_power(
    found: Callable[..., list[str]], prompt: str
) -> None:
    assert found(prompt, "nothing of it") == []


@settings(deadline=None)
@given(st.text(max_size=200))
def test_any_prompt_can_be_searched_for(prompt: str) -> None:
    with closing(open_store()) as store:
        capture(store, make_history("some text"))
        assert len(search(store, prompt, 5)) <= 1


def test_the_adapter_gives_the_same_memory_twice_and_names_its_sources() -> None:
    condition = Condition(
        id="raw_fts",
        role="control",
        summary="s",
        adapter="raw_fts",
        budget=MemoryBudget(unit="o200k_base", max_tokens=100),
        retrieve_k=1,
    )
    history = make_history("the panel says parked", "parked, too")
    one, two = (RawFtsAdapter().remember(condition, history, "panel parked") for _ in range(2))
    assert one == two
    assert [(item.item_id, item.source_event_ids) for item in one.items] == [("e0", ("e0",))]
    assert (one.captured_events, one.store_sha256 is None) == (2, False)


def test_the_store_is_frozen_before_the_task_is_known() -> None:
    condition = Condition(
        id="raw_fts",
        role="control",
        summary="s",
        adapter="raw_fts",
        budget=MemoryBudget(unit="o200k_base", max_tokens=100),
        retrieve_k=5,
    )
    digests = {
        RawFtsAdapter().remember(condition, make_history("a b", "c d"), prompt).store_sha256
        for prompt in ("a", "c", "")
    }
    assert len(digests) == 1

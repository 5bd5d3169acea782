"""Search: the task's words find events; nothing in a prompt is search syntax."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.memory.raw_fts import RawFtsAdapter
from orchestrator.memory.sessions import PROJECT
from orchestrator.memory.sqlite.capture import capture, capture_episode, open_store
from orchestrator.memory.sqlite.search import query_terms, search
from orchestrator.model.task import Episode, Event, History, ToolCall
from tests.unit.memory.lives import AT, COUNTER, arm, life_of, said


@pytest.fixture
def found() -> Callable[..., list[str]]:
    def run(prompt: str, *texts: str, k: int = 10) -> list[str]:
        with closing(open_store()) as store:
            capture(store, said(*texts))
            return [hit.event_id for hit in search(store, prompt, k, scope=PROJECT)]

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
        assert [
            len(search(store, word, 5, scope=PROJECT)) for word in ("parked", "widget", "absent")
        ] == [1, 1, 0]


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
        capture(store, said("some text"))
        assert len(search(store, prompt, 5, scope=PROJECT)) <= 1


def test_the_adapter_gives_the_same_memory_twice_and_names_its_sources() -> None:
    history = said("the panel says parked", "parked, too")
    one, two = (
        life_of(RawFtsAdapter(COUNTER), arm("raw_fts", k=1), history, "panel parked")
        for _ in range(2)
    )
    assert one == two
    assert [(item.item_id, item.source_event_ids) for item in one.items] == [("e0", ("e0",))]
    assert (one.captured_events, one.store_sha256 is None, one.failure) == (2, False, None)


def test_the_store_is_frozen_before_the_task_is_known() -> None:
    stores = {
        (found.store_sha256, found.archive_sha256)
        for found in (
            life_of(RawFtsAdapter(COUNTER), arm("raw_fts", k=5), said("a b", "c d"), prompt)
            for prompt in ("a", "c", "-")
        )
    }
    assert len(stores) == 1


def test_the_same_history_gives_the_same_store_and_another_gives_another() -> None:
    stores = [
        life_of(RawFtsAdapter(COUNTER), arm("raw_fts"), said("one", last)).store_sha256
        for last in ("three", "three", "four")
    ]
    assert stores[0] == stores[1] != stores[2]


def test_another_project_is_neither_searched_nor_asked_for_duplicates() -> None:
    event = said("the panel says parked").episodes[0].events[0]
    twin = event.model_copy(update={"event_id": "twin"})
    with closing(open_store()) as store:
        capture_episode(store, "s1", (event,), scope="one")
        capture_episode(store, "s2", (twin,), scope="two")
        found = [
            [hit.event_id for hit in search(store, "parked", 5, scope=scope)]
            for scope in ("one", "two", "three")
        ]
    assert found == [["e0"], ["twin"], []]

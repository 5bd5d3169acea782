"""Capture: every raw event ends stored or dropped with a reason, in order, in one transaction an episode."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest

from orchestrator.core.errors import IntegrityError
from orchestrator.memory.sqlite.capture import capture, capture_episode, open_store
from orchestrator.model.task import Episode, Event, History, ToolCall

AT = "2026-01-05T09:00:00Z"
TOKEN = "ghp_" + "a1B2" * 9


def said(event_id: str, text: str) -> Event:
    return Event(event_id=event_id, at=AT, role="user", text=text)


def episode(episode_id: str, *events: Event) -> Episode:
    return Episode(episode_id=episode_id, started_at=AT, events=events)


def history(*episodes: Episode) -> History:
    return History(task_id="t", episodes=episodes)


@pytest.fixture
def store() -> Iterator[sqlite3.Connection]:
    with closing(open_store()) as connection:
        yield connection


def rows(store: sqlite3.Connection, table: str) -> list[tuple[object, ...]]:
    return store.execute(f"SELECT * FROM {table} ORDER BY ordinal").fetchall()


def test_raw_events_keep_their_literal_order_with_contiguous_ordinals(
    store: sqlite3.Connection,
) -> None:
    capture(
        store,
        history(
            episode("e1", said("z", "one"), said("a", "two")), episode("e2", said("m", "three"))
        ),
    )
    assert [row[:3] for row in rows(store, "raw_events")] == [
        (0, "z", "e1"),
        (1, "a", "e1"),
        (2, "m", "e2"),
    ]


def test_empty_events_and_exact_duplicates_are_dropped_with_a_reason(
    store: sqlite3.Connection,
) -> None:
    events = (said("a", "Done."), said("b", " \n"), said("c", "Done."))
    captures = capture_episode(store, "e1", events, scope="project")
    assert [(found.event_id, found.reason) for found in captures] == [
        ("a", None),
        ("b", "empty"),
        ("c", "duplicate of a"),
    ]


def test_no_secret_is_stored_in_any_table(store: sqlite3.Connection) -> None:
    tool = ToolCall(name="bash", input=f"git push https://{TOKEN}@example.org", exit_code=0)
    capture(
        store,
        history(
            episode("e1", Event(event_id="a", at=AT, role="tool", text=f"ok {TOKEN}", tool=tool))
        ),
    )
    dump = "\n".join(store.iterdump())
    assert TOKEN not in dump
    assert dump.count("[redacted:github-token]") == 2


def test_a_tool_event_holds_name_input_exit_code_and_output(store: sqlite3.Connection) -> None:
    tool = ToolCall(name="bash", input="make test", exit_code=2)
    capture(
        store,
        history(episode("e1", Event(event_id="a", at=AT, role="tool", text="2 failed", tool=tool))),
    )
    assert rows(store, "captured_events")[0][4] == "bash: make test (exit 2)\n2 failed"


def test_episodes_that_share_an_id_are_both_captured(store: sqlite3.Connection) -> None:
    for event in (said("a", "x"), said("b", "y")):
        capture_episode(store, "e1", (event,), scope="project")
    assert [row[1] for row in rows(store, "captured_events")] == ["a", "b"]


@pytest.mark.parametrize(
    "fault",
    [
        "DELETE FROM captured_events WHERE event_id = 'b'",
        "INSERT INTO dropped_events VALUES (new.ordinal, new.event_id, 'twice')",
        "UPDATE captured_events SET ordinal = 999 WHERE event_id = 'b'",
        "INSERT INTO captured_events VALUES (999, 'x', 'at', 'user', 'made up', 'x')",
        "UPDATE raw_events SET ordinal = 7 WHERE event_id = 'b'",
    ],
)
def test_an_event_lost_doubled_or_made_up_on_the_way_rolls_its_episode_back(
    store: sqlite3.Connection, fault: str
) -> None:
    store.execute(
        f"CREATE TRIGGER fault AFTER INSERT ON captured_events WHEN new.event_id = 'b' BEGIN {fault}; END"
    )
    two = history(
        episode("e1", said("a", "kept")), episode("e2", said("b", "hit"), said("c", "with it"))
    )
    with pytest.raises(
        IntegrityError, match="e2: expected every event stored or dropped exactly once"
    ):
        capture(store, two)
    assert [row[1] for row in rows(store, "raw_events")] == ["a"]
    assert not store.in_transaction

"""Short working conversations that no task of the pack contains, and a store that has heard them."""

from __future__ import annotations

import sqlite3

from orchestrator.memory.reference.capture import capture
from orchestrator.memory.reference.drafts import Utterance
from orchestrator.memory.reference.extract import HeuristicExtractor
from orchestrator.memory.reference.keeper import Keeper
from orchestrator.memory.reference.store import open_store
from orchestrator.memory.reference.tasks import drain
from orchestrator.model.lifecycle import Session
from orchestrator.model.task import Event, ToolCall

START = "2026-01-05T09:00:00Z"
Line = tuple[str, str] | tuple[str, str, int]


def at(day: int, minute: int = 0) -> str:
    """The time of an event: day of January, minute after nine."""
    return f"2026-01-{day:02d}T09:{minute:02d}:00Z"


def session(day: int, *lines: Line, scope: str = "project") -> Session:
    """A session of one day; a line is (speaker, text) or ("tool", text, exit code)."""
    events = tuple(
        Event(
            event_id=f"d{day:02d}-e{number:02d}",
            at=at(day, number),
            role=line[0],  # type: ignore[arg-type]
            text=line[1],
            tool=ToolCall(name="bash", input="run", exit_code=line[2]) if len(line) == 3 else None,
        )
        for number, line in enumerate(lines, 1)
    )
    return Session(session_id=f"day{day:02d}", scope=scope, started_at=at(day), events=events)


def utterances(*lines: Line) -> tuple[Utterance, ...]:
    """Captured events of one session, as extraction sees them."""
    return tuple(
        Utterance(
            event_id=f"e{number}",
            at=at(1, number),
            role=line[0],
            tool="bash" if len(line) == 3 else None,
            exit_code=line[2] if len(line) == 3 else None,
            text=line[1],
        )
        for number, line in enumerate(lines, 1)
    )


def heard(*sessions: Session) -> tuple[sqlite3.Connection, Keeper]:
    """A store that has captured and settled sessions."""
    store = open_store()
    keeper = Keeper(store, START)
    for given in sessions:
        capture(store, given)
    drain(store, keeper, HeuristicExtractor(), 60)
    return store, keeper


def statuses(store: sqlite3.Connection) -> list[tuple[str, str | None]]:
    """Memory ids in order, each with what superseded it."""
    return store.execute(
        "SELECT m.memory_id, e.superseded_by FROM memories m LEFT JOIN memory_ends e USING (memory_id) "
        "ORDER BY m.ordinal"
    ).fetchall()


def rulings(store: sqlite3.Connection) -> list[tuple[str, str]]:
    """Action and rule of every decision in order."""
    return store.execute("SELECT action, rule FROM decisions ORDER BY ordinal").fetchall()

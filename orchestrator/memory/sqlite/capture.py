"""Capture: raw events into SQLite, insert-only, one transaction per episode, in literal order.

Sees raw events and nothing else: no prompt, fact, test or summary. Every event ends as a captured row or
as a drop with a reason, and that is checked before the transaction commits.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from urllib.parse import quote

from orchestrator.core.canonical import sha256_hex
from orchestrator.core.errors import IntegrityError
from orchestrator.memory.redact import redact
from orchestrator.memory.sessions import PROJECT
from orchestrator.memory.sqlite.search import split_camel
from orchestrator.model.lifecycle import EventCapture
from orchestrator.model.task import Event, History

_SCHEMA = """
CREATE TABLE raw_events (
    ordinal INTEGER PRIMARY KEY, event_id TEXT NOT NULL UNIQUE, episode_id TEXT NOT NULL,
    at TEXT NOT NULL, role TEXT NOT NULL, content_sha256 TEXT NOT NULL, scope TEXT NOT NULL
) STRICT;
CREATE TABLE captured_events (
    ordinal INTEGER PRIMARY KEY REFERENCES raw_events(ordinal), event_id TEXT NOT NULL UNIQUE,
    at TEXT NOT NULL, role TEXT NOT NULL, text TEXT NOT NULL, text_sha256 TEXT NOT NULL UNIQUE
) STRICT;
CREATE TABLE dropped_events (
    ordinal INTEGER PRIMARY KEY REFERENCES raw_events(ordinal), event_id TEXT NOT NULL UNIQUE, reason TEXT NOT NULL
) STRICT;
CREATE VIRTUAL TABLE captured_text USING fts5(text, content='', tokenize='porter unicode61');
"""


def open_store(file: Path | None = None) -> sqlite3.Connection:
    """Returns an empty store in a new file, or in memory."""
    store = sqlite3.connect(file or ":memory:", isolation_level=None)
    store.executescript(_SCHEMA)
    return store


def reopen_frozen(file: Path) -> sqlite3.Connection:
    """Opens a store in a file for reading alone."""
    return sqlite3.connect(
        f"file:{quote(str(file))}?mode=ro&immutable=1", uri=True, isolation_level=None
    )


def capture_episode(
    store: sqlite3.Connection, episode_id: str, events: tuple[Event, ...], *, scope: str
) -> tuple[EventCapture, ...]:
    """Captures an episode in one transaction; returns what became of each event, in order.

    Raises:
        IntegrityError: an event is in neither or in both tables; nothing of the episode is kept then.
    """
    with store:  # commits, or rolls back on any error
        store.execute("BEGIN IMMEDIATE")
        first = int(store.execute("SELECT count(*) FROM raw_events").fetchone()[0])
        captures = tuple(
            _capture_event(store, ordinal, event, episode_id, scope)
            for ordinal, event in enumerate(events, first)
        )
        _check_bijection(store, episode_id, events, first)
    return captures


def capture(store: sqlite3.Connection, history: History) -> int:
    """Captures a whole history into one scope; returns how many events were stored."""
    for episode in history.episodes:
        capture_episode(store, episode.episode_id, episode.events, scope=PROJECT)
    return int(store.execute("SELECT count(*) FROM captured_events").fetchone()[0])


def event_text(event: Event) -> str:
    """Returns the searchable text of an event: the message, or the tool's call and output."""
    if event.tool is None:
        return event.text
    ended = "" if event.tool.exit_code is None else f" (exit {event.tool.exit_code})"
    return f"{event.tool.name}: {event.tool.input}{ended}\n{event.text}"


def _capture_event(
    store: sqlite3.Connection, ordinal: int, event: Event, episode_id: str, scope: str
) -> EventCapture:
    content_sha256 = event.digest_sha256()
    store.execute(
        "INSERT INTO raw_events VALUES (?, ?, ?, ?, ?, ?, ?)",
        (ordinal, event.event_id, episode_id, event.at, event.role, content_sha256, scope),
    )
    whole = event_text(event)
    text = redact(whole).strip()
    # A duplicate is one of the same scope: what another project knows decides nothing here.
    name = sha256_hex(f"{scope}\n{text}".encode())
    known = store.execute(
        "SELECT event_id FROM captured_events WHERE text_sha256 = ?", (name,)
    ).fetchone()
    if not text or known:
        reason = "empty" if not text else f"duplicate of {known[0]}"
        store.execute(
            "INSERT INTO dropped_events VALUES (?, ?, ?)", (ordinal, event.event_id, reason)
        )
        return EventCapture(event_id=event.event_id, outcome="dropped", reason=reason)
    store.execute(
        "INSERT INTO captured_events VALUES (?, ?, ?, ?, ?, ?)",
        (ordinal, event.event_id, event.at, event.role, text, name),
    )
    store.execute(
        "INSERT INTO captured_text(rowid, text) VALUES (?, ?)", (ordinal, split_camel(text))
    )
    redactions = max(0, text.count("[redacted:") - whole.count("[redacted:"))
    return EventCapture(event_id=event.event_id, outcome="captured", redactions=redactions)


def _check_bijection(
    store: sqlite3.Connection, episode_id: str, events: tuple[Event, ...], first: int
) -> None:
    """Every event of the episode has the next ordinal and ended in exactly one table; no row is without event."""
    rows = store.execute(
        "SELECT r.ordinal, r.event_id, (c.ordinal IS NOT NULL) + (d.ordinal IS NOT NULL) FROM raw_events r "
        "LEFT JOIN captured_events c USING (ordinal) LEFT JOIN dropped_events d USING (ordinal) "
        "WHERE r.ordinal >= ? ORDER BY r.ordinal",
        (first,),
    ).fetchall()
    ended = store.execute(
        "SELECT (SELECT count(*) FROM captured_events) + (SELECT count(*) FROM dropped_events)"
    ).fetchone()[0]
    expected = [(ordinal, event.event_id, 1) for ordinal, event in enumerate(events, first)]
    if rows != expected or ended != first + len(expected):
        raise IntegrityError(
            "capture-incomplete",
            f"episode {episode_id}: expected every event stored or dropped exactly once, found {rows}",
            hint="report this as a bug",
        )

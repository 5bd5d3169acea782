"""Capture: raw events into SQLite, insert-only, one transaction per episode, in literal order.

Sees raw events and nothing else: no prompt, fact, test or summary. Every event ends as a captured row or
as a drop with a reason, and that is checked before the transaction commits.
"""

from __future__ import annotations

import sqlite3

from orchestrator.core.canonical import digest_sha256, sha256_hex
from orchestrator.core.errors import IntegrityError
from orchestrator.memory.redact import redact
from orchestrator.memory.sqlite.search import split_camel
from orchestrator.model.memory import CaptureDrop
from orchestrator.model.task import Episode, Event, History

_SCHEMA = """
CREATE TABLE raw_events (
    ordinal INTEGER PRIMARY KEY, event_id TEXT NOT NULL UNIQUE, episode_id TEXT NOT NULL,
    at TEXT NOT NULL, role TEXT NOT NULL, content_sha256 TEXT NOT NULL
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

_DUMP = {
    "raw_events": "SELECT * FROM raw_events ORDER BY ordinal",
    "captured_events": "SELECT * FROM captured_events ORDER BY ordinal",
    "dropped_events": "SELECT * FROM dropped_events ORDER BY ordinal",
}


def open_store() -> sqlite3.Connection:
    """Returns an empty store in memory."""
    store = sqlite3.connect(":memory:", isolation_level=None)
    store.executescript(_SCHEMA)
    return store


def capture(store: sqlite3.Connection, history: History) -> tuple[int, tuple[CaptureDrop, ...]]:
    """Captures a history; returns how many events were stored and which were dropped.

    Raises:
        IntegrityError: an event is in neither or in both tables; nothing of its episode is kept then.
    """
    ordinal = 0
    for episode in history.episodes:
        with store:  # commits, or rolls back on any error
            store.execute("BEGIN IMMEDIATE")
            first, ordinal = ordinal, _capture_episode(store, episode, ordinal)
            _check_bijection(store, episode, first)
    stored = int(store.execute("SELECT count(*) FROM captured_events").fetchone()[0])
    rows = store.execute("SELECT event_id, reason FROM dropped_events ORDER BY ordinal").fetchall()
    return stored, tuple(CaptureDrop(event_id=event_id, reason=reason) for event_id, reason in rows)


def event_text(event: Event) -> str:
    """Returns the searchable text of an event: the message, or the tool's call and output."""
    if event.tool is None:
        return event.text
    ended = "" if event.tool.exit_code is None else f" (exit {event.tool.exit_code})"
    return f"{event.tool.name}: {event.tool.input}{ended}\n{event.text}"


def _capture_episode(store: sqlite3.Connection, episode: Episode, ordinal: int) -> int:
    for event in episode.events:
        store.execute(
            "INSERT INTO raw_events VALUES (?, ?, ?, ?, ?, ?)",
            (
                ordinal,
                event.event_id,
                episode.episode_id,
                event.at,
                event.role,
                event.digest_sha256(),
            ),
        )
        text = redact(event_text(event)).strip()
        name = sha256_hex(text.encode())
        known = store.execute(
            "SELECT event_id FROM captured_events WHERE text_sha256 = ?", (name,)
        ).fetchone()
        if not text or known:
            reason = "empty" if not text else f"duplicate of {known[0]}"
            store.execute(
                "INSERT INTO dropped_events VALUES (?, ?, ?)", (ordinal, event.event_id, reason)
            )
        else:
            store.execute(
                "INSERT INTO captured_events VALUES (?, ?, ?, ?, ?, ?)",
                (ordinal, event.event_id, event.at, event.role, text, name),
            )
            store.execute(
                "INSERT INTO captured_text(rowid, text) VALUES (?, ?)", (ordinal, split_camel(text))
            )
        ordinal += 1
    return ordinal


def _check_bijection(store: sqlite3.Connection, episode: Episode, first: int) -> None:
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
    expected = [(ordinal, event.event_id, 1) for ordinal, event in enumerate(episode.events, first)]
    if rows != expected or ended != first + len(expected):
        raise IntegrityError(
            "capture-incomplete",
            f"episode {episode.episode_id}: expected every event stored or dropped exactly once, found {rows}",
            hint="report this as a bug",
        )


def store_sha256(store: sqlite3.Connection) -> str:
    """Returns the digest of a canonical dump: every row of every table, in order."""
    return digest_sha256(
        {table: [list(row) for row in store.execute(dump)] for table, dump in _DUMP.items()}
    )

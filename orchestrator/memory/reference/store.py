"""The tables of the reference store, and the statements that make one. SQLite belongs to this room.

What happened is insert-only by trigger: raw, captured and dropped events, seals, candidates, decisions,
memories, their ends and links. The one thing that changes is the state of an extraction task, along legal
steps alone.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Final

STORE_VERSION: Final = 1

# Every table of the canonical dump with the order of its rows.
TABLES: Final[dict[str, str]] = {
    "raw_events": "ordinal",
    "captured_events": "ordinal",
    "dropped_events": "ordinal",
    "session_seals": "first_ordinal",
    "extraction_tasks": "ordinal",
    "candidates": "ordinal",
    "decisions": "ordinal",
    "memories": "ordinal",
    "memory_ends": "ordinal",
    "links": "ordinal",
    "reviews": "ordinal",
}

_SCHEMA: Final = """
CREATE TABLE raw_events (
    ordinal INTEGER PRIMARY KEY, event_id TEXT NOT NULL UNIQUE, session_id TEXT NOT NULL, at TEXT NOT NULL,
    role TEXT NOT NULL, tool TEXT, exit_code INTEGER, content_sha256 TEXT NOT NULL
) STRICT;
CREATE TABLE captured_events (
    ordinal INTEGER PRIMARY KEY REFERENCES raw_events(ordinal), event_id TEXT NOT NULL UNIQUE,
    text TEXT NOT NULL, text_sha256 TEXT NOT NULL, redactions INTEGER NOT NULL, cut_chars INTEGER NOT NULL,
    labels TEXT NOT NULL
) STRICT;
CREATE TABLE dropped_events (
    ordinal INTEGER PRIMARY KEY REFERENCES raw_events(ordinal), event_id TEXT NOT NULL UNIQUE, reason TEXT NOT NULL
) STRICT;
CREATE TABLE session_seals (
    first_ordinal INTEGER PRIMARY KEY, session_id TEXT NOT NULL UNIQUE, scope TEXT NOT NULL, events INTEGER NOT NULL,
    plan_sha256 TEXT NOT NULL, projection_sha256 TEXT NOT NULL
) STRICT;
CREATE TABLE extraction_tasks (
    ordinal INTEGER PRIMARY KEY, session_id TEXT NOT NULL UNIQUE, extractor TEXT, state TEXT NOT NULL
        CHECK (state IN ('queued', 'leased', 'done', 'failed')),
    attempts INTEGER NOT NULL, prompt_sha256 TEXT, model TEXT, tokens INTEGER, fault TEXT
) STRICT;
CREATE TABLE candidates (
    ordinal INTEGER PRIMARY KEY, candidate_id TEXT NOT NULL UNIQUE, session_id TEXT NOT NULL, at TEXT NOT NULL,
    kind TEXT NOT NULL, text TEXT NOT NULL, reason TEXT, rejected TEXT NOT NULL, files TEXT NOT NULL,
    scope TEXT NOT NULL, evidence TEXT NOT NULL, cues TEXT NOT NULL, labels TEXT NOT NULL, confidence_milli INTEGER NOT NULL, extractor TEXT NOT NULL
) STRICT;
CREATE TABLE decisions (
    ordinal INTEGER PRIMARY KEY, candidate_id TEXT NOT NULL, action TEXT NOT NULL
        CHECK (action IN ('promote', 'hold', 'reject')),
    rule TEXT NOT NULL, detail TEXT NOT NULL, memory_id TEXT
) STRICT;
CREATE TABLE memories (
    ordinal INTEGER PRIMARY KEY, memory_id TEXT NOT NULL UNIQUE, candidate_id TEXT NOT NULL UNIQUE, kind TEXT NOT NULL,
    text TEXT NOT NULL, rejected TEXT NOT NULL, files TEXT NOT NULL, scope TEXT NOT NULL, evidence TEXT NOT NULL,
    reason TEXT, labels TEXT NOT NULL, valid_from TEXT NOT NULL, recorded_at TEXT NOT NULL
) STRICT;
CREATE TABLE memory_ends (
    ordinal INTEGER PRIMARY KEY, memory_id TEXT NOT NULL UNIQUE, valid_to TEXT NOT NULL, recorded_at TEXT NOT NULL,
    superseded_by TEXT NOT NULL, rule TEXT NOT NULL
) STRICT;
CREATE TABLE links (
    ordinal INTEGER PRIMARY KEY, from_id TEXT NOT NULL, to_id TEXT NOT NULL, kind TEXT NOT NULL
        CHECK (kind IN ('supersedes', 'refines', 'contradicts', 'inherits_veto')),
    recorded_at TEXT NOT NULL, UNIQUE (from_id, to_id, kind)
) STRICT;
CREATE TABLE reviews (
    ordinal INTEGER PRIMARY KEY, candidate_id TEXT NOT NULL UNIQUE, action TEXT NOT NULL
        CHECK (action IN ('promote', 'reject')),
    reviewer TEXT NOT NULL, seconds_spent INTEGER NOT NULL, recorded_at TEXT NOT NULL
) STRICT;
CREATE TABLE vectors (
    memory_id TEXT PRIMARY KEY, embedder TEXT NOT NULL, vector BLOB NOT NULL
) STRICT;
CREATE INDEX events_of_session ON raw_events(session_id, ordinal);
CREATE INDEX events_by_time ON raw_events(at);
CREATE INDEX captured_by_text ON captured_events(text_sha256);
CREATE INDEX decisions_of_candidate ON decisions(candidate_id, ordinal);
CREATE VIRTUAL TABLE memory_text USING fts5(text, content='', tokenize='porter unicode61');
CREATE VIRTUAL TABLE memory_terms USING fts5vocab(memory_text, 'row');
CREATE TRIGGER legal_steps BEFORE UPDATE ON extraction_tasks
    WHEN (OLD.state || '>' || NEW.state) NOT IN ('queued>leased', 'leased>done', 'leased>failed', 'leased>queued')
        OR OLD.session_id <> NEW.session_id OR NEW.attempts < OLD.attempts
    BEGIN SELECT RAISE(ABORT, 'an extraction task goes queued, leased, then done, failed or queued again'); END;
CREATE TRIGGER tasks_stay BEFORE DELETE ON extraction_tasks
    BEGIN SELECT RAISE(ABORT, 'extraction_tasks is insert-only'); END;
"""

_INSERT_ONLY: Final = tuple(name for name in TABLES if name != "extraction_tasks")


def open_store(path: Path | None = None) -> sqlite3.Connection:
    """Returns an empty store, in a new file or in memory.

    Its user may be another thread than its maker, one at a time.

    Raises:
        sqlite3.OperationalError: the file exists and holds these tables already.
    """
    store = sqlite3.connect(
        str(path) if path else ":memory:", isolation_level=None, check_same_thread=False
    )
    if path:
        # A trial's store is thrown away or archived whole; a crash of the machine ends the trial anyway.
        store.execute("PRAGMA journal_mode = MEMORY")
        store.execute("PRAGMA synchronous = OFF")
    store.executescript(_SCHEMA)
    for table in _INSERT_ONLY:
        for change in ("UPDATE", "DELETE"):
            store.execute(
                f"CREATE TRIGGER {table}_no_{change.lower()} BEFORE {change} ON {table} "
                f"BEGIN SELECT RAISE(ABORT, '{table} is insert-only'); END"
            )
    return store


def next_ordinal(store: sqlite3.Connection, table: str) -> int:
    """Returns the number of the next row of a table: rows count from 0 without a gap."""
    if table not in TABLES:
        raise ValueError(f"no table {table}")
    # TABLES is a constant of this module: no outside text gets into the statement.
    row = store.execute(f"SELECT coalesce(max({TABLES[table]}), -1) + 1 FROM {table}").fetchone()  # noqa: S608
    return int(row[0])


def reopen_frozen(path: Path) -> sqlite3.Connection:
    """Returns a store for reading alone; nothing is written beside it either."""
    store = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=ro&immutable=1",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
    )
    store.execute("PRAGMA temp_store = MEMORY")
    return store

"""Extraction tasks: one for each captured session, queued, leased, then done or failed. Reads captured events.

A task that fails is tried again up to a bound; nothing of a failed try is kept. A deadline leaves what is not
done as failed, with its reason: it is an extraction failure and never a silent gap.
"""

from __future__ import annotations

import sqlite3
from typing import Final

from orchestrator.core.canonical import sha256_hex
from orchestrator.core.clock import monotonic_ms
from orchestrator.core.errors import MemtrialError
from orchestrator.memory.reference.drafts import Extractor, Utterance
from orchestrator.memory.reference.keeper import Keeper
from orchestrator.model.lifecycle import ExtractionTask

MAX_ATTEMPTS: Final = 3


def drain(
    store: sqlite3.Connection, keeper: Keeper, extractor: Extractor, deadline_s: int
) -> tuple[ExtractionTask, ...]:
    """Works off every queued task in the order of capture; returns how each ended.

    Args:
        store: the open store.
        keeper: writes candidates and memories.
        extractor: reads one session.
        deadline_s: when to give up, in seconds from now.
    """
    ends_ms = monotonic_ms() + deadline_s * 1000
    queued = store.execute(
        "SELECT t.session_id, s.scope, (SELECT max(at) FROM raw_events WHERE ordinal < s.first_ordinal + s.events) "
        "FROM extraction_tasks t JOIN session_seals s USING (session_id) WHERE t.state = 'queued' ORDER BY t.ordinal"
    ).fetchall()
    for session_id, scope, captured_at in queued:
        keeper.now = captured_at
        fault: str | None = "the deadline had passed"
        while monotonic_ms() < ends_ms:
            fault = _try(store, keeper, extractor, session_id, scope)
            if fault is None or _attempts(store, session_id) >= MAX_ATTEMPTS:
                break
            _step(store, session_id, "queued", fault)
        if fault is not None:
            if _state(store, session_id) == "queued":
                _step(store, session_id, "leased", None)
            _step(store, session_id, "failed", fault)
    return report(store)


def report(store: sqlite3.Connection) -> tuple[ExtractionTask, ...]:
    """Returns every task that has ended."""
    rows = store.execute(
        "SELECT session_id, state, attempts, prompt_sha256, model, tokens, fault FROM extraction_tasks "
        "WHERE state IN ('done', 'failed') ORDER BY ordinal"
    ).fetchall()
    return tuple(
        ExtractionTask(
            task_id=f"x-{sha256_hex(session_id.encode())[:16]}",
            session_id=session_id,
            state=state,
            attempts=max(1, attempts),
            prompt_sha256=prompt,
            model=model,
            tokens=tokens,
            error=fault,
        )
        for session_id, state, attempts, prompt, model, tokens, fault in rows
    )


def utterances(store: sqlite3.Connection, session_id: str) -> tuple[Utterance, ...]:
    """Returns the captured events of a session, redacted, in literal order."""
    rows = store.execute(
        "SELECT r.event_id, r.at, r.role, r.tool, r.exit_code, c.text, c.labels FROM raw_events r "
        "JOIN captured_events c USING (ordinal) WHERE r.session_id = ? ORDER BY r.ordinal",
        (session_id,),
    ).fetchall()
    read = ((*row[:6], tuple(row[6].split())) for row in rows)
    return tuple(Utterance(*values) for values in read)


def _try(
    store: sqlite3.Connection, keeper: Keeper, extractor: Extractor, session_id: str, scope: str
) -> str | None:
    """Tries one task; returns the fault that it ended with, or None."""
    _step(store, session_id, "leased", None)
    events = utterances(store, session_id)
    try:
        extraction = extractor.extract(session_id, events)
    except MemtrialError as error:
        return f"{error.reference}: {error.message}"[:500]
    with store:
        store.execute("BEGIN IMMEDIATE")
        for draft in extraction.drafts:
            keeper.take(draft, session_id, scope, events, extractor.name)
        store.execute(
            "UPDATE extraction_tasks SET state = 'done', extractor = ?, prompt_sha256 = ?, model = ?, tokens = ?, "
            "fault = NULL WHERE session_id = ?",
            (
                *(extractor.name, extraction.prompt_sha256, extraction.model),
                *(extraction.tokens, session_id),
            ),
        )
    return None


def _step(store: sqlite3.Connection, session_id: str, state: str, fault: str | None) -> None:
    store.execute(
        "UPDATE extraction_tasks SET state = ?, attempts = attempts + (? = 'leased'), fault = ? WHERE session_id = ?",
        (state, state, fault, session_id),
    )


def _state(store: sqlite3.Connection, session_id: str) -> str:
    row = store.execute(
        "SELECT state FROM extraction_tasks WHERE session_id = ?", (session_id,)
    ).fetchone()
    return str(row[0])


def _attempts(store: sqlite3.Connection, session_id: str) -> int:
    row = store.execute(
        "SELECT attempts FROM extraction_tasks WHERE session_id = ?", (session_id,)
    ).fetchone()
    return int(row[0])

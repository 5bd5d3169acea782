"""Capture: one session of raw events into the store, insert-only, one transaction, in literal order.

Sees raw events and nothing else: no summary, fact, prompt, test. What is to be written is planned and
hashed first; what was written is read back, hashed and compared before the transaction commits.
"""

from __future__ import annotations

import sqlite3
from dataclasses import asdict, dataclass
from typing import Final

from orchestrator.core.canonical import digest_sha256, sha256_hex
from orchestrator.core.errors import DocumentError, IntegrityError
from orchestrator.memory.redact import redact
from orchestrator.memory.reference.injection import labels_of
from orchestrator.memory.reference.store import next_ordinal
from orchestrator.memory.sqlite.capture import event_text
from orchestrator.model.lifecycle import Session

# What is kept of one event, in characters, after redaction: what a person or a tool says that is longer is a log.
MAX_KEPT_CHARS: Final = 65_536
_MARK: Final = "[redacted:"


@dataclass(frozen=True, slots=True)
class Kept:
    """How one event ends: kept with its text, or dropped for a reason."""

    ordinal: int
    event_id: str
    at: str
    role: str
    tool: str | None
    exit_code: int | None
    content_sha256: str
    drop_reason: str | None
    text: str
    redactions: int
    cut_chars: int
    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Seal:
    """The seal of one captured session, and how each of its events ended."""

    session_id: str
    first_ordinal: int
    plan_sha256: str
    projection_sha256: str
    kept: tuple[Kept, ...]


def capture(store: sqlite3.Connection, session: Session) -> Seal:
    """Captures a session whole or not at all.

    Raises:
        DocumentError: an event or the session was captured before.
        IntegrityError: what was read back is not what was planned.
    """
    with store:  # commits, or rolls back on any error
        store.execute("BEGIN IMMEDIATE")
        _refuse_repetition(store, session)
        first = next_ordinal(store, "raw_events")
        plan = _plan(store, session, first)
        plan_sha256 = digest_sha256([_call(kept) for kept in plan])
        for kept in plan:
            _write(store, session.session_id, kept)
        projection_sha256 = _check_bijection(store, session, plan, plan_sha256)
        store.execute(
            "INSERT INTO session_seals VALUES (?, ?, ?, ?, ?, ?)",
            (
                *(first, session.session_id, session.scope),
                *(len(plan), plan_sha256, projection_sha256),
            ),
        )
        store.execute(
            "INSERT INTO extraction_tasks VALUES (?, ?, NULL, 'queued', 0, NULL, NULL, NULL, NULL)",
            (next_ordinal(store, "extraction_tasks"), session.session_id),
        )
    return Seal(session.session_id, first, plan_sha256, projection_sha256, plan)


def _refuse_repetition(store: sqlite3.Connection, session: Session) -> None:
    ids = [event.event_id for event in session.events]
    seen: set[str] = set()
    for name in ids:
        known = store.execute("SELECT 1 FROM raw_events WHERE event_id = ?", (name,)).fetchone()
        if known or name in seen:
            raise DocumentError(
                "event-repeated",
                f"session {session.session_id}: expected each event once, found {name} again",
                hint="give every event of a history an id of its own",
            )
        seen.add(name)
    if store.execute(
        "SELECT 1 FROM session_seals WHERE session_id = ?", (session.session_id,)
    ).fetchone():
        raise DocumentError(
            "session-repeated",
            f"expected each session once, found {session.session_id} again",
            hint="open a new store to ingest a history again",
        )


def _plan(store: sqlite3.Connection, session: Session, first: int) -> tuple[Kept, ...]:
    plan: list[Kept] = []
    latest = store.execute("SELECT max(at) FROM raw_events").fetchone()[0] or ""
    seen: dict[str, str] = {}
    for ordinal, event in enumerate(session.events, first):
        text = redact(event_text(event)).strip()
        cut = max(0, len(text) - MAX_KEPT_CHARS)
        text = text[:MAX_KEPT_CHARS]
        late = ("out_of_order",) if event.at < latest else ()
        latest = max(latest, event.at)
        reason = _drop_reason(store, text, seen)
        seen.setdefault(sha256_hex(text.encode()), event.event_id)
        plan.append(
            Kept(
                ordinal=ordinal,
                event_id=event.event_id,
                at=event.at,
                role=event.role,
                tool=event.tool.name if event.tool else None,
                exit_code=event.tool.exit_code if event.tool else None,
                content_sha256=event.digest_sha256(),
                drop_reason=reason,
                text="" if reason else text,
                redactions=0 if reason else text.count(_MARK),
                cut_chars=0 if reason else cut,
                labels=() if reason else (*late, *labels_of(text)),
            )
        )
    return tuple(plan)


def _drop_reason(store: sqlite3.Connection, text: str, seen: dict[str, str]) -> str | None:
    if not text:
        return "empty"
    name = sha256_hex(text.encode())
    known = store.execute(
        "SELECT event_id FROM captured_events WHERE text_sha256 = ?", (name,)
    ).fetchone()
    twin = known[0] if known else seen.get(name)
    return f"duplicate of {twin}" if twin else None


def _call(kept: Kept) -> dict[str, object]:
    """Returns one call of the plan as it is hashed: text by its digest."""
    call: dict[str, object] = {**asdict(kept), "labels": list(kept.labels)}
    call["text"] = sha256_hex(kept.text.encode())
    return call


def _write(store: sqlite3.Connection, session_id: str, kept: Kept) -> None:
    store.execute(
        "INSERT INTO raw_events VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *(kept.ordinal, kept.event_id, session_id, kept.at, kept.role),
            *(kept.tool, kept.exit_code, kept.content_sha256),
        ),
    )
    if kept.drop_reason:
        store.execute(
            "INSERT INTO dropped_events VALUES (?, ?, ?)",
            (kept.ordinal, kept.event_id, kept.drop_reason),
        )
        return
    store.execute(
        "INSERT INTO captured_events VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            *(kept.ordinal, kept.event_id, kept.text, sha256_hex(kept.text.encode())),
            *(kept.redactions, kept.cut_chars, " ".join(kept.labels)),
        ),
    )


def _check_bijection(
    store: sqlite3.Connection, session: Session, plan: tuple[Kept, ...], plan_sha256: str
) -> str:
    """Reads the session's rows back: one for each event, in order, as planned. Returns their digest."""
    rows = store.execute(
        "SELECT r.ordinal, r.event_id, r.at, r.role, r.tool, r.exit_code, r.content_sha256, d.reason, "
        "coalesce(c.text, ''), coalesce(c.redactions, 0), coalesce(c.cut_chars, 0), coalesce(c.labels, ''), "
        "(c.ordinal IS NOT NULL) + (d.ordinal IS NOT NULL) FROM raw_events r "
        "LEFT JOIN captured_events c ON c.ordinal = r.ordinal AND c.event_id = r.event_id "
        "LEFT JOIN dropped_events d ON d.ordinal = r.ordinal AND d.event_id = r.event_id "
        "WHERE r.session_id = ? ORDER BY r.ordinal",
        (session.session_id,),
    ).fetchall()
    read = ((*row[:11], tuple(row[11].split())) for row in rows)
    found = tuple(Kept(*values) for values in read)
    ended = all(row[12] == 1 for row in rows)
    ids = [row[1] for row in rows]
    if not ended or found != plan or ids != [event.event_id for event in session.events]:
        raise IntegrityError(
            "capture-incomplete",
            f"session {session.session_id}: expected a row for each of {len(plan)} events as planned "
            f"({plan_sha256[:12]}), found {len(rows)} rows that differ",
            hint="report this as a bug",
        )
    return digest_sha256([[row[0], row[1], sha256_hex(row[8].encode()), row[7]] for row in rows])

"""The control arm `raw_fts`: raw events, captured and searched, without any extraction.

A product that does not beat it at equal budget has shown storage, not memory.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from orchestrator.memory.builtin import LOOKS_BACK, BuiltinMemory, ranked_of, recorded_by
from orchestrator.memory.faults import broken
from orchestrator.memory.sqlite.capture import capture_episode, open_store, reopen_frozen
from orchestrator.memory.sqlite.search import search
from orchestrator.memory.supplies import Supplies
from orchestrator.memory.tokens import TokenCounter
from orchestrator.model.lifecycle import (
    CaptureReport,
    Query,
    Ranked,
    Session,
    Snapshot,
    StoredMemory,
    StoreDump,
)
from orchestrator.protocols import MemoryPlace


class RawFtsAdapter(BuiltinMemory):
    """Captures sessions into an SQLite file, freezes it, then searches with the query's prompt."""

    name = "raw_fts"
    capabilities = LOOKS_BACK

    def __init__(self, counter: TokenCounter) -> None:
        super().__init__(counter)
        self._store: sqlite3.Connection | None = None
        self._file = Path()

    def open(self, place: MemoryPlace) -> None:
        """Makes an empty store."""
        self._file = place.workdir / "events.sqlite"
        self._store = open_store(self._file)

    def ingest(self, session: Session) -> CaptureReport:
        """Captures a session in one transaction."""
        events = capture_episode(
            self._opened(), session.session_id, session.events, scope=session.scope
        )
        return CaptureReport(session_id=session.session_id, events=events)

    def freeze(self) -> Snapshot:
        """Opens the store again, for reading alone."""
        self._opened().close()
        self._store = reopen_frozen(self._file)
        return super().freeze()

    def retrieve(self, query: Query) -> Ranked:
        """Returns the ranked events."""
        hits = search(self._opened(), query.prompt, query.k, scope=query.scope)
        memories = {memory.memory_id: memory for memory in self._rows()}
        found = [memories[hit.event_id] for hit in hits]
        return ranked_of(query, found, considered=len(memories))

    def dump(self, as_of: str | None = None) -> StoreDump:
        """Returns every captured event, as a memory of its own."""
        rows = [memory for memory in self._rows() if recorded_by(memory, as_of)]
        return StoreDump(memories=tuple(sorted(rows, key=lambda memory: memory.memory_id)))

    def close(self) -> None:
        """Closes the store."""
        if self._store is not None:
            self._store.close()

    def _opened(self) -> sqlite3.Connection:
        if self._store is None:
            raise broken("step-in-order", "expected `open` before any other step, found none")
        return self._store

    def _rows(self) -> list[StoredMemory]:
        rows = self._opened().execute(
            "SELECT c.event_id, c.at, c.role, c.text, r.scope FROM captured_events c "
            "JOIN raw_events r USING (ordinal) ORDER BY ordinal"
        )
        return [
            StoredMemory(
                memory_id=event_id,
                kind="event",
                text=f"{at[:10]} {role}: {text}",
                scope=scope,
                status="active",
                evidence_event_ids=(event_id,),
                valid_from=at,
                recorded_at=at,
            )
            for event_id, at, role, text, scope in rows
        ]


def make(name: str, supplies: Supplies) -> RawFtsAdapter:
    """Makes the control arm."""
    return RawFtsAdapter(supplies.counter)

"""The arm `full_history` and what other verbatim arms stand on: every event as it was said, in order.

Secrets are taken out, empty and repeated events dropped with a reason; nothing else is done to the text.
"""

from __future__ import annotations

from pathlib import Path

from orchestrator.core.canonical import canonical_bytes
from orchestrator.memory.builtin import LOOKS_BACK, BuiltinMemory
from orchestrator.memory.faults import broken
from orchestrator.memory.redact import redact
from orchestrator.memory.sqlite.capture import event_text
from orchestrator.memory.supplies import Supplies
from orchestrator.memory.tokens import TokenCounter
from orchestrator.model.lifecycle import (
    CaptureReport,
    EventCapture,
    Session,
    Snapshot,
    StoredMemory,
)
from orchestrator.model.task import Event
from orchestrator.protocols import MemoryPlace


class VerbatimMemory(BuiltinMemory):
    """Keeps events as they are; written to a file at the freeze."""

    name = "full_history"
    capabilities = LOOKS_BACK

    def __init__(self, counter: TokenCounter) -> None:
        super().__init__(counter)
        self._texts: dict[tuple[str, str], str] = {}
        self._file = Path()
        self._frozen = False

    def open(self, place: MemoryPlace) -> None:
        """Begins with no event."""
        super().open(place)
        self._texts.clear()
        self._frozen = False
        self._file = place.workdir / "events.json"

    def ingest(self, session: Session) -> CaptureReport:
        """Keeps the events of a session that this system wants.

        Raises:
            AdapterFault: the store is frozen.
        """
        if self._frozen:
            raise broken("frozen-is-frozen", "expected no session after the freeze, found one")
        return CaptureReport(
            session_id=session.session_id,
            events=tuple(self._kept(event, session.scope) for event in session.events),
        )

    def _kept(self, event: Event, scope: str) -> EventCapture:
        whole = event_text(event)
        text = redact(whole).strip()
        known = self._texts.get((scope, text))
        reason = self.unwanted(event) or (
            "empty" if not text else known and f"duplicate of {known}"
        )
        if reason:
            return EventCapture(event_id=event.event_id, outcome="dropped", reason=reason)
        self._texts[scope, text] = event.event_id
        self._memories.append(
            StoredMemory(
                memory_id=event.event_id,
                kind="event",
                text=f"{event.at[:10]} {event.role}: {text}",
                scope=scope,
                status="active",
                evidence_event_ids=(event.event_id,),
                valid_from=event.at,
                recorded_at=event.at,
            )
        )
        redactions = max(0, text.count("[redacted:") - whole.count("[redacted:"))
        return EventCapture(event_id=event.event_id, outcome="captured", redactions=redactions)

    def unwanted(self, event: Event) -> str | None:
        """Says why an event is left out, or None; here none is."""
        return None

    def freeze(self) -> Snapshot:
        """Writes the store down."""
        self._file.write_bytes(canonical_bytes(self.dump().model_dump(mode="json")))
        self._frozen = True
        return super().freeze()


def make(name: str, supplies: Supplies) -> VerbatimMemory:
    """Makes the arm with the whole history."""
    return VerbatimMemory(supplies.counter)

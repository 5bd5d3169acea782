"""A foreign memory system that is loaded and made within its own first step, under the watch of its life.

A package that crashes, hangs or ends the interpreter when it is imported has failed like any other.
"""

from __future__ import annotations

from collections.abc import Callable

from orchestrator.memory.faults import broken
from orchestrator.model.condition import MemoryBudget
from orchestrator.model.lifecycle import (
    CaptureReport,
    CompiledContext,
    Description,
    ExtractionReport,
    GoldFacts,
    Query,
    Ranked,
    Session,
    Snapshot,
    StoreDump,
)
from orchestrator.protocols import InformedAdapter, MemoryAdapter, MemoryPlace


class LateAdapter:
    """Makes the system at `describe`, and hands every other step on."""

    def __init__(self, make: Callable[[], MemoryAdapter]) -> None:
        self._make = make
        self._made: MemoryAdapter | None = None

    def describe(self) -> Description:
        """Makes the system and asks it."""
        self._made = self._make()
        return self._made.describe()

    def inform(self, gold: GoldFacts) -> None:
        """Hands gold facts on to a system that has a door for them."""
        inner = self._inner()
        if not isinstance(inner, InformedAdapter):
            raise broken("information-as-declared", "expected a door for gold facts, found none")
        inner.inform(gold)

    def open(self, place: MemoryPlace) -> None:
        """Hands on."""
        self._inner().open(place)

    def ingest(self, session: Session) -> CaptureReport:
        """Hands on."""
        return self._inner().ingest(session)

    def settle(self, deadline_s: int) -> ExtractionReport:
        """Hands on."""
        return self._inner().settle(deadline_s)

    def freeze(self) -> Snapshot:
        """Hands on."""
        return self._inner().freeze()

    def retrieve(self, query: Query) -> Ranked:
        """Hands on."""
        return self._inner().retrieve(query)

    def compile(self, ranked: Ranked, budget: MemoryBudget) -> CompiledContext:
        """Hands on."""
        return self._inner().compile(ranked, budget)

    def dump(self, as_of: str | None = None) -> StoreDump:
        """Hands on."""
        return self._inner().dump(as_of)

    def close(self) -> None:
        """Hands on; a system that could not be made has nothing to close."""
        if self._made is not None:
            self._made.close()

    def _inner(self) -> MemoryAdapter:
        if self._made is None:
            raise broken("step-in-order", "expected `describe` before any other step, found none")
        return self._made

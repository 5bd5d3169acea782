"""Arms that take another system's store and replace its search: everything in order, or by the answer key.

The system below captures, extracts and stores as always; only what is read from its store differs.
"""

from __future__ import annotations

from collections.abc import Callable

from orchestrator.core.errors import DocumentError
from orchestrator.memory.builtin import ranked_of
from orchestrator.memory.supplies import Supplies
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
    StoredMemory,
    StoreDump,
)
from orchestrator.protocols import MemoryAdapter, MemoryPlace


class FlatMemory:
    """Every active memory of the system below, oldest first."""

    name = "flatfile"

    def __init__(self, inner: MemoryAdapter) -> None:
        self._inner = inner

    def describe(self) -> Description:
        """Describes the system below under its own name."""
        return self._inner.describe().model_copy(update={"adapter": self.name})

    def open(self, place: MemoryPlace) -> None:
        """Opens the system below."""
        self._inner.open(place)

    def ingest(self, session: Session) -> CaptureReport:
        """Captures as the system below does."""
        return self._inner.ingest(session)

    def settle(self, deadline_s: int) -> ExtractionReport:
        """Extracts as the system below does."""
        return self._inner.settle(deadline_s)

    def freeze(self) -> Snapshot:
        """Freezes the system below."""
        return self._inner.freeze()

    def retrieve(self, query: Query) -> Ranked:
        """Ranks by the time of recording."""
        active = [m for m in self._inner.dump().memories if m.status == "active"]
        mine = sorted(
            (m for m in active if m.scope == query.scope),
            key=lambda m: (m.recorded_at or "", m.memory_id),
        )
        return ranked_of(query, self.chosen(mine)[: query.k], considered=len(mine))

    def chosen(self, memories: list[StoredMemory]) -> list[StoredMemory]:
        """Returns what is shown; here all."""
        return memories

    def compile(self, ranked: Ranked, budget: MemoryBudget) -> CompiledContext:
        """Compiles as the system below does."""
        return self._inner.compile(ranked, budget)

    def dump(self, as_of: str | None = None) -> StoreDump:
        """Returns the store of the system below."""
        return self._inner.dump(as_of)

    def close(self) -> None:
        """Closes the system below."""
        self._inner.close()


class OracleRetrieval(FlatMemory):
    """The memories of the system below that rest on the decisive events."""

    name = "oracle_retrieval"

    def __init__(self, inner: MemoryAdapter) -> None:
        super().__init__(inner)
        self._decisive: frozenset[str] = frozenset()

    def describe(self) -> Description:
        """Says that it is told gold facts."""
        return super().describe().model_copy(update={"information": "gold"})

    def inform(self, gold: GoldFacts) -> None:
        """Learns which events matter."""
        self._decisive = frozenset(event for fact in gold.facts for event in fact.event_ids)

    def chosen(self, memories: list[StoredMemory]) -> list[StoredMemory]:
        """Returns what rests on them."""
        return [m for m in memories if self._decisive.intersection(m.evidence_event_ids)]


_BY_NAME: dict[str, Callable[[MemoryAdapter], FlatMemory]] = {
    kind.name: kind for kind in (FlatMemory, OracleRetrieval)
}


def make(name: str, supplies: Supplies) -> FlatMemory:
    """Makes one of these arms over the system that the supplies name.

    Raises:
        DocumentError: they name none.
    """
    if supplies.inner is None:
        raise DocumentError(
            "adapter-without-store",
            f"adapter {name}: expected a system to stand on, found none",
            hint="mend the shelf of built-in systems",
        )
    return _BY_NAME[name](supplies.inner())

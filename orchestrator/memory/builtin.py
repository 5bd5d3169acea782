"""What the built-in memory systems share: the steps of a system that has little or nothing to do in them.

A subclass overrides what it really does. Keeps its memories in order and searches nothing by default: the
whole store is ranked as it lies, up to k.
"""

from __future__ import annotations

from typing import Literal

from orchestrator import __version__
from orchestrator.memory.compile import compile_context
from orchestrator.memory.tokens import TokenCounter
from orchestrator.model.condition import MemoryBudget
from orchestrator.model.lifecycle import (
    Capabilities,
    CaptureReport,
    CompiledContext,
    Description,
    EventCapture,
    ExtractionReport,
    Observed,
    Query,
    Ranked,
    RankedItem,
    Session,
    Snapshot,
    StoredMemory,
    StoreDump,
)
from orchestrator.protocols import MemoryPlace

PLAIN = Capabilities(timestamps=True, update=False, delete=False, scopes=True)
LOOKS_BACK = PLAIN.model_copy(update={"as_of": True})
ALL_PARTS = tuple(Observed)


class BuiltinMemory:
    """A system whose store is a list of memories, in order."""

    name = "builtin"
    information: Literal["none", "raw", "curated", "gold"] = "raw"
    capabilities = PLAIN

    def __init__(self, counter: TokenCounter) -> None:
        self._counter = counter
        self._memories: list[StoredMemory] = []

    def describe(self) -> Description:
        """Names itself; shows every part of its path."""
        return Description(
            adapter=self.name,
            version=__version__,
            capabilities=self.capabilities,
            shows=ALL_PARTS,
            information=self.information,
        )

    def open(self, place: MemoryPlace) -> None:
        """Begins with no memory."""
        self._memories.clear()

    def ingest(self, session: Session) -> CaptureReport:
        """Keeps nothing of a session, and says so."""
        return CaptureReport(
            session_id=session.session_id,
            events=tuple(
                EventCapture(
                    event_id=event.event_id,
                    outcome="dropped",
                    reason=f"{self.name} does not learn from raw events",
                )
                for event in session.events
            ),
        )

    def settle(self, deadline_s: int) -> ExtractionReport:
        """Has no queue."""
        return ExtractionReport(extractor=None)

    def freeze(self) -> Snapshot:
        """Takes the digest of the dump."""
        dump = self.dump()
        return Snapshot(dump_sha256=dump.digest_sha256(), memories=len(dump.memories))

    def retrieve(self, query: Query) -> Ranked:
        """Ranks the memories of the query's scope as they lie."""
        mine = [memory for memory in self._memories if memory.scope == query.scope]
        return ranked_of(query, mine[: query.k], considered=len(mine))

    def compile(self, ranked: Ranked, budget: MemoryBudget) -> CompiledContext:
        """Compiles in rank order."""
        return compile_context(ranked, budget, self._counter)

    def dump(self, as_of: str | None = None) -> StoreDump:
        """Returns all memories, or those that had been recorded by a time."""
        return StoreDump(
            memories=tuple(
                sorted(
                    (m for m in self._memories if recorded_by(m, as_of)),
                    key=lambda memory: memory.memory_id,
                )
            )
        )

    def close(self) -> None:
        """Holds nothing."""


def recorded_by(memory: StoredMemory, as_of: str | None) -> bool:
    """Whether a memory had been written down at a time; of one without a time nobody knows."""
    return as_of is None or (memory.recorded_at is not None and memory.recorded_at <= as_of)


def ranked_of(query: Query, memories: list[StoredMemory], *, considered: int) -> Ranked:
    """Returns memories as ranked items."""
    return Ranked(
        query_sha256=query.digest_sha256(),
        considered=considered,
        items=tuple(
            RankedItem(
                memory_id=memory.memory_id,
                text=memory.text,
                source_event_ids=memory.evidence_event_ids,
            )
            for memory in memories
        ),
    )

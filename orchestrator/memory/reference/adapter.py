"""The memory system `reference`: capture, extraction, promotion, search and compile in SQLite.

A heuristic baseline, said to be one. Writes one file below its work folder; asks no model unless it is given
an extractor that does. What the machine lacks (vectors) is a degraded mode in every answer that it touches.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Final

from orchestrator import __version__
from orchestrator.core.canonical import sha256_hex
from orchestrator.memory.builtin import ALL_PARTS, BuiltinMemory
from orchestrator.memory.compile import compile_context
from orchestrator.memory.faults import broken
from orchestrator.memory.reference.capture import capture
from orchestrator.memory.reference.drafts import Extractor
from orchestrator.memory.reference.dump import candidates, dump
from orchestrator.memory.reference.extract import NAME as HEURISTIC
from orchestrator.memory.reference.extract import HeuristicExtractor
from orchestrator.memory.reference.keeper import MEMORY, Keeper
from orchestrator.memory.reference.related import near_duplicates
from orchestrator.memory.reference.retrieve import Found, Searcher
from orchestrator.memory.reference.store import open_store, reopen_frozen
from orchestrator.memory.reference.tasks import drain
from orchestrator.memory.reference.vectors import Embedder
from orchestrator.memory.tokens import TokenCounter
from orchestrator.model.condition import MemoryBudget
from orchestrator.model.lifecycle import (
    Capabilities,
    CaptureReport,
    ChannelRank,
    CompiledContext,
    Description,
    EventCapture,
    ExtractionReport,
    Query,
    Ranked,
    RankedItem,
    Session,
    Snapshot,
    StoredMemory,
    StoreDump,
)
from orchestrator.model.review import ReviewLog
from orchestrator.protocols import MemoryPlace

NO_VECTORS: Final = "no_vectors: the packages of requirements/embedding.lock are not installed"
ALL_CHANNELS: Final = ("fts", "vector", "files", "hop")
# At most so many memories that say nearly the same are given to an agent.
DUPLICATE_CAP: Final = 2
ExtractorFor = Callable[[MemoryPlace], Extractor]


class ReferenceAdapter(BuiltinMemory):
    """The reference pipeline as a memory system."""

    name = "reference"

    def __init__(
        self,
        counter: TokenCounter,
        *,
        embedder: Embedder | None,
        extractor: str = HEURISTIC,
        extractor_for: ExtractorFor = lambda _: HeuristicExtractor(),
        channels: tuple[str, ...] = ALL_CHANNELS,
        review: ReviewLog | None = None,
    ) -> None:
        """Takes what it works with.

        Args:
            counter: counts tokens.
            embedder: makes vectors; None where this machine has none.
            extractor: what the extractor is, for the description.
            extractor_for: makes the extractor for the place that the store is opened in.
            channels: the ways in which it searches; an ablation has fewer.
            review: a person's answers on what it will hold back.
        """
        super().__init__(counter)
        self._embedder = embedder if "vector" in channels else None
        self._extractor_name = extractor
        self._extractor_for = extractor_for
        self._extractor: Extractor | None = None
        self._channels = channels
        self._review = review
        self._store: sqlite3.Connection | None = None
        self._keeper: Keeper | None = None
        self._searchers: dict[str, Searcher] = {}
        self._file = Path()
        self._frozen: dict[str, StoredMemory] | None = None
        self._place: MemoryPlace | None = None

    def describe(self) -> Description:
        """Names itself, its extractor and what this machine lacks."""
        return Description(
            adapter=self.name,
            version=f"{__version__}, {self._embedder.name if self._embedder else 'no vectors'}",
            capabilities=Capabilities(
                timestamps=True,
                update=True,
                delete=False,
                scopes=True,
                as_of=True,
                vectors=self._embedder is not None,
            ),
            shows=ALL_PARTS,
            information="raw",
            extractor=self._extractor_name,
            degraded=self._degraded(),
        )

    def open(self, place: MemoryPlace) -> None:
        """Makes an empty store."""
        self._place = place
        self._extractor = self._extractor_for(place)
        self._file = place.workdir / "memory.sqlite"
        self._store = open_store(self._file)
        self._keeper = Keeper(self._store, place.clock.now())

    def ingest(self, session: Session) -> CaptureReport:
        """Captures a session in one transaction."""
        seal = capture(self._opened(), session)
        return CaptureReport(
            session_id=session.session_id,
            events=tuple(
                EventCapture(
                    event_id=kept.event_id,
                    outcome="dropped" if kept.drop_reason else "captured",
                    reason=kept.drop_reason,
                    redactions=kept.redactions,
                    cut_characters=kept.cut_chars,
                )
                for kept in seal.kept
            ),
        )

    def settle(self, deadline_s: int) -> ExtractionReport:
        """Extracts from every captured session, decides on every candidate, and makes the vectors."""
        if self._keeper is None or self._extractor is None:
            raise broken("step-in-order", "expected `open` before `settle`, found none")
        store = self._opened()
        tasks = drain(store, self._keeper, self._extractor, deadline_s)
        if self._review is not None:
            self._carry_out(self._review, self._keeper, store)
        if self._embedder:
            embed_memories(store, self._embedder)
        return ExtractionReport(
            extractor=self._extractor.name,
            tasks=tasks,
            candidates=candidates(store),
            review=self._review.used() if self._review else None,
        )

    def _carry_out(self, review: ReviewLog, keeper: Keeper, store: sqlite3.Connection) -> None:
        """Resolves what was held as a person did who saw this very store.

        Raises:
            AdapterFault: it was another store.
        """
        before = dump(store)
        found = before.digest_sha256()
        held = {m.memory_id: m for m in before.memories if m.status == "held"}
        if (found, len(held)) != (review.dump_sha256, review.held):
            raise broken(
                "review-of-this-store",
                f"expected a review of store {found[:16]} with {len(held)} held, found one of {review.dump_sha256[:16]} with {review.held}",
            )
        for entry in review.entries:
            memory = held.get(entry.candidate_id)
            if memory is None or (entry.text_sha256, entry.evidence_event_ids) != (
                sha256_hex(memory.text.encode()),
                memory.evidence_event_ids,
            ):
                raise broken(
                    "review-of-this-store",
                    f"expected answers on what is held, found one on {entry.candidate_id} that is not, or not so",
                )
        if self._place is not None:
            keeper.now = self._place.clock.now()
        for entry in review.entries:
            keeper.review(entry.candidate_id, entry.action, review.reviewer, entry.seconds_spent)

    def freeze(self) -> Snapshot:
        """Opens the store again, for reading alone."""
        store = self._opened()
        store.execute("INSERT INTO memory_text(memory_text) VALUES ('optimize')")
        store.close()
        self._store = reopen_frozen(self._file)
        self._frozen = None
        return super().freeze()

    def reopen(self, workdir: Path) -> None:
        """Opens a frozen store for reading alone."""
        self._file = workdir / "memory.sqlite"
        self._store = reopen_frozen(self._file)

    def retrieve(self, query: Query) -> Ranked:
        """Searches all channels and fuses their ranks."""
        searcher = self._searcher(query.scope)
        found = searcher.search(query.prompt, query.k, query.files_in_scope)
        return Ranked(
            query_sha256=query.digest_sha256(),
            considered=searcher.considered,
            items=tuple(self._item(item) for item in found),
            degraded=self._degraded(),
        )

    def compile(self, ranked: Ranked, budget: MemoryBudget) -> CompiledContext:
        """Compiles in rank order; of memories that say nearly the same only the first two are given."""
        crowd = near_duplicates(
            [(item.memory_id, item.text) for item in ranked.items], DUPLICATE_CAP
        )
        return compile_context(
            ranked, budget, self._counter, refused=dict.fromkeys(crowd, "duplicate_cap")
        )

    def dump(self, as_of: str | None = None) -> StoreDump:
        """Returns memories and held candidates, as they were recorded by a time."""
        return dump(self._opened(), as_of)

    def close(self) -> None:
        """Closes the store, and the way to a model if there is one."""
        if self._extractor is not None:
            self._extractor.close()
        if self._store is not None:
            self._store.close()

    def _item(self, found: Found) -> RankedItem:
        memory = self._memory(found.ordinal)
        return RankedItem(
            memory_id=memory.memory_id,
            text=memory.text,
            source_event_ids=memory.evidence_event_ids,
            score_micros=round(found.score * 1_000_000),
            channels=tuple(
                ChannelRank(channel=channel, rank=rank) for channel, rank in found.channels
            ),
        )

    def _memory(self, ordinal: int) -> StoredMemory:
        """Returns a row of the frozen store in the words of its dump."""
        if self._frozen is None:
            self._frozen = {memory.memory_id: memory for memory in self.dump().memories}
        return self._frozen[MEMORY.format(ordinal)]

    def _searcher(self, scope: str) -> Searcher:
        if scope not in self._searchers:
            self._searchers[scope] = Searcher(self._opened(), scope, self._embedder, self._channels)
        return self._searchers[scope]

    def _degraded(self) -> tuple[str, ...]:
        return (NO_VECTORS,) if self._embedder is None and "vector" in self._channels else ()

    def _opened(self) -> sqlite3.Connection:
        if self._store is None:
            raise broken("step-in-order", "expected `open` before any other step, found none")
        return self._store


def embed_memories(store: sqlite3.Connection, embedder: Embedder) -> int:
    """Makes the missing vectors; returns how many. A vector is of the statement without its day and kind."""
    rows = store.execute(
        "SELECT memory_id, text FROM memories WHERE memory_id NOT IN (SELECT memory_id FROM vectors) ORDER BY ordinal"
    ).fetchall()
    with store:
        store.execute("BEGIN IMMEDIATE")
        store.executemany(
            "INSERT INTO vectors VALUES (?, ?, ?)",
            ((memory_id, embedder.name, embedder.embed(text)) for memory_id, text in rows),
        )
    return len(rows)

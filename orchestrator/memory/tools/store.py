"""A frozen store under questions that an agent makes up: the system's own search and compile, by the harness's checks.

Every step runs within its time on the one thread of the system's life; what breaks is a fault of the system.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from orchestrator.memory.answering import answered
from orchestrator.memory.checks import check_context, check_ranked
from orchestrator.memory.faults import AdapterFault, broken
from orchestrator.memory.life import Limits
from orchestrator.memory.sessions import PROJECT
from orchestrator.memory.tokens import TokenCounter
from orchestrator.memory.watchdog import Watchdog
from orchestrator.model.base import Document
from orchestrator.model.condition import MemoryBudget
from orchestrator.model.lifecycle import (
    CompiledContext,
    ContractFailure,
    Description,
    Query,
    Ranked,
    RankedItem,
    Step,
    StoreDump,
)
from orchestrator.protocols import ServingAdapter

T = TypeVar("T")
D = TypeVar("D", bound=Document)


class ServedStore:
    """The store of one attempt. Not safe for threads: one caller at a time."""

    def __init__(
        self,
        adapter: ServingAdapter,
        budget: MemoryBudget,
        counter: TokenCounter,
        k: int,
        *,
        ours: bool = False,
        limits: Limits | None = None,
    ) -> None:
        """Takes an adapter; nothing is asked of it yet.

        Args:
            adapter: opens its store again, searches and compiles.
            budget: what one answer may hold.
            counter: counts tokens.
            k: how many notes a search considers.
            ours: the adapter is part of memtrial, whose harness errors are not the arm's fault.
            limits: of its steps.
        """
        self._adapter = adapter
        self._budget = budget
        self._counter = counter
        self._k = k
        self._limits = limits or Limits()
        self._watchdog = Watchdog(ours=ours)
        self._description: Description | None = None
        self._dump = StoreDump(memories=())
        self._ranked: dict[str, RankedItem] = {}
        self.failure: ContractFailure | None = None

    def reopen(self, workdir: Path, dump_sha256: str | None) -> None:
        """Opens the work folder for reading and looks whether it is the store that was frozen.

        Args:
            workdir: as `freeze` left it.
            dump_sha256: of the dump at the freeze; None for a system without a store.
        """

        def opened() -> None:
            self._watchdog.call(lambda: self._adapter.reopen(workdir), self._limits.step_s)
            self._look()
            if dump_sha256 not in {None, self._dump.digest_sha256()}:
                raise broken(
                    "frozen-is-frozen",
                    "expected the store as it was frozen, found another dump when it was opened again",
                )

        self._guarded(Step.RETRIEVE, opened)

    def search(self, query: str) -> CompiledContext | None:
        """Returns the best notes for a question under the budget; None if the system broke its contract."""
        asked = Query(prompt=query, scope=PROJECT, k=self._k)
        ranked = self._guarded(Step.RETRIEVE, lambda: self._retrieved(asked))
        return None if ranked is None else self._compiled(ranked)

    def get(self, memory_id: str) -> CompiledContext | None:
        """Returns one note of those that a search of this attempt ranked; nothing for any other id.

        A search ranks what may be shown, so superseded and held memories have no way in here either.
        """
        item = self._ranked.get(memory_id)
        asked = Query(prompt=memory_id, scope=PROJECT, k=1)
        items = () if item is None else (item,)
        return self._compiled(
            Ranked(query_sha256=asked.digest_sha256(), considered=len(items), items=items)
        )

    def close(self) -> None:
        """Lets go of the store, also of one that hangs."""
        if self._watchdog.hung:
            self._watchdog = Watchdog()
        with suppress(AdapterFault):
            self._watchdog.call(self._adapter.close, self._limits.step_s)
        self._watchdog.end()

    def _look(self) -> Description:
        """Asks once who the system is and what its store holds."""
        if self._description is None:
            self._dump = self._answer(StoreDump, self._adapter.dump)
            self._description = self._answer(Description, self._adapter.describe)
        return self._description

    def _retrieved(self, query: Query) -> Ranked:
        description = self._look()
        ranked = self._answer(Ranked, lambda: self._adapter.retrieve(query))
        events = frozenset(e for m in self._dump.memories for e in m.evidence_event_ids)
        check_ranked(ranked, query, description, self._dump, events)
        self._ranked |= {item.memory_id: item for item in ranked.items}
        return ranked

    def _compiled(self, ranked: Ranked) -> CompiledContext | None:
        def compiled() -> CompiledContext:
            context = self._answer(
                CompiledContext, lambda: self._adapter.compile(ranked, self._budget)
            )
            check_context(context, ranked, self._budget, self._counter)
            return context

        return self._guarded(Step.COMPILE, compiled)

    def _answer(self, kind: type[D], run: Callable[[], D]) -> D:
        limits = self._limits
        return answered(
            self._watchdog, kind, run, limit_s=limits.step_s, max_bytes=limits.answer_bytes
        )

    def _guarded(self, step: Step, run: Callable[[], T]) -> T | None:
        """Runs a step; the first fault is kept, and after it the system is asked nothing more."""
        if self.failure is not None:
            return None
        try:
            return run()
        except AdapterFault as fault:
            self.failure = fault.as_failure(step)
            return None

"""The life of a memory system in one trial: each step taken once, bounded, checked, recorded and hashed.

The only caller of an adapter's steps, for trials, by hand and in the contract kit. What breaks is charged
to the step at which it broke and ends the life; the trial goes on without memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from orchestrator.core.canonical import sha256_hex
from orchestrator.core.errors import UsageError
from orchestrator.memory.answering import answered
from orchestrator.memory.archive import archive_of
from orchestrator.memory.checks import (
    check_capture,
    check_context,
    check_description,
    check_extraction,
    check_past,
    check_ranked,
    check_snapshot,
)
from orchestrator.memory.faults import AdapterFault, broken
from orchestrator.memory.sessions import HistoryClock
from orchestrator.memory.tokens import TokenCounter
from orchestrator.memory.watchdog import Watchdog
from orchestrator.model.base import Document
from orchestrator.model.chronology import in_form_of
from orchestrator.model.condition import Condition
from orchestrator.model.lifecycle import (
    CaptureReport,
    CaptureReports,
    CompiledContext,
    ContractFailure,
    Description,
    ExtractionReport,
    FrozenStore,
    GoldFacts,
    Query,
    Ranked,
    Session,
    Snapshot,
    Step,
    StepRecord,
    StoreDump,
)
from orchestrator.model.memory import CaptureDrop, MemoryItem, Remembered
from orchestrator.model.review import ReviewLog
from orchestrator.protocols import InformedAdapter, MemoryAdapter, MemoryPlace

T = TypeVar("T")
D = TypeVar("D", bound=Document)

NOTHING = sha256_hex(b"")
"""The input of a step that gets nothing."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How long steps may take, in seconds, and how large an answer may be, in bytes."""

    step_s: float = 120.0
    settle_s: int = 600
    answer_bytes: int = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Assignment:
    """What one life is about: the arm, its sessions, the query that comes after the freeze, its place.

    `ours` says that the adapter is memtrial's own code, whose harness errors are not the arm's fault.
    """

    condition: Condition
    sessions: tuple[Session, ...]
    query: Query
    place: MemoryPlace
    clock: HistoryClock
    gold: GoldFacts | None = None
    review: ReviewLog | None = None
    ours: bool = False
    limits: Limits = Limits()
    as_of: str | None = None


Keep = Callable[[str, bytes], str]
Note = Callable[[StepRecord], None]


def live(
    adapter: MemoryAdapter,
    assignment: Assignment,
    counter: TokenCounter,
    *,
    keep: Keep,
    note: Note = lambda _: None,
) -> Remembered:
    """Takes a memory system through its life.

    Args:
        adapter: the system, fresh.
        assignment: what it is about.
        counter: counts tokens.
        keep: stores a named document and returns its SHA-256.
        note: is told of every step as soon as it has ended.
    """
    return _Life(adapter, assignment, counter, keep, note).run()


class _Life:
    def __init__(
        self,
        adapter: MemoryAdapter,
        assignment: Assignment,
        counter: TokenCounter,
        keep: Keep,
        note: Note,
    ) -> None:
        self._adapter = adapter
        self._a = assignment
        self._counter = counter
        self._keep = keep
        self._note = note
        self._watchdog = Watchdog(ours=assignment.ours)
        self._description: Description | None = None
        self._steps: list[StepRecord] = []
        self._captures: list[CaptureReport] = []
        self._store: FrozenStore | None = None
        self._items: tuple[MemoryItem, ...] = ()

    def run(self) -> Remembered:
        """Takes every step; a fault ends the life, and the system is closed either way."""
        context, failure = None, None
        try:
            context = self._steps_in_order()
        except AdapterFault:
            failure = self._steps[-1].failure
        finally:
            self._close()
        return self._remembered(context, failure)

    def _steps_in_order(self) -> CompiledContext | None:
        adapter, given = self._adapter, self._a
        description = self._step(
            Step.DESCRIBE, "description", NOTHING, lambda: self._described(adapter.describe)
        )
        self._open()
        self._step(Step.INGEST, "captures", sessions_sha256(given.sessions), self._ingested)
        events = frozenset(event.event_id for report in self._captures for event in report.events)
        extraction = self._step(Step.SETTLE, "extraction", NOTHING, lambda: self._settled(events))
        dump = self._freeze(description, extraction, events)
        ranked = self._step(
            Step.RETRIEVE,
            "ranked",
            given.query.digest_sha256(),
            lambda: self._retrieved(description, dump, events),
        )
        if given.condition.budget is None:
            self._unchanged(Step.RETRIEVE)
            return None
        return self._step(
            Step.COMPILE, "context", ranked.digest_sha256(), lambda: self._compiled(ranked)
        )

    def _step(self, step: Step, name: str, input_sha256: str, run: Callable[[], D]) -> D:
        """Takes one step, keeps its answer and notes it, also if it failed."""
        try:
            answer = run()
        except AdapterFault as fault:
            self._record(step, input_sha256, None, fault)
            raise
        self._record(step, input_sha256, self._keep(name, answer.canonical()), None)
        return answer

    def _record(
        self, step: Step, input_sha256: str, answer: str | None, fault: AdapterFault | None
    ) -> None:
        failure = fault.as_failure(step) if fault else None
        record = StepRecord(
            step=step, input_sha256=input_sha256, answer_sha256=answer, failure=failure
        )
        self._steps.append(record)
        self._note(record)

    def _call(self, run: Callable[[], T], limit_s: float | None = None) -> T:
        return self._watchdog.call(run, limit_s or self._a.limits.step_s)

    def _answer(self, kind: type[D], run: Callable[[], D], limit_s: float | None = None) -> D:
        """Calls the adapter and reads its answer again from its own bytes: what it holds is data alone."""
        limits = self._a.limits
        return answered(
            self._watchdog,
            kind,
            run,
            limit_s=limit_s or limits.step_s,
            max_bytes=limits.answer_bytes,
        )

    def _described(self, describe: Callable[[], Description]) -> Description:
        description = self._answer(Description, describe)
        self._description = description
        gold = self._a.gold
        check_description(description, self._a.condition, gold=gold is not None)
        if self._a.as_of is not None and not description.capabilities.as_of:
            raise UsageError(
                "system-looks-not-back",
                f"condition {self._a.condition.id}: expected a system that tells what it held at a time (capability "
                f"as_of), found {description.adapter}, which says that it cannot",
                hint="leave out --as-of, or name another arm with --condition",
            )
        if gold is not None:
            self._call(lambda: self._informed().inform(gold))
        return description

    def _informed(self) -> InformedAdapter:
        if not isinstance(self._adapter, InformedAdapter):
            raise broken("information-as-declared", "expected a door for gold facts, found none")
        return self._adapter

    def _open(self) -> None:
        try:
            self._call(lambda: self._adapter.open(self._a.place))
        except AdapterFault as fault:
            self._record(Step.OPEN, NOTHING, None, fault)
            raise
        self._record(Step.OPEN, NOTHING, None, None)

    def _ingested(self) -> CaptureReports:
        for session in self._a.sessions:
            report = self._answer(CaptureReport, partial(self._adapter.ingest, session))
            check_capture(session, report)
            self._captures.append(report)
            self._a.clock.reach(session.events[-1].at)
        return CaptureReports(reports=tuple(self._captures))

    def _settled(self, events: frozenset[str]) -> ExtractionReport:
        deadline_s = self._a.limits.settle_s
        report = self._answer(
            ExtractionReport,
            lambda: self._adapter.settle(deadline_s),
            deadline_s + self._a.limits.step_s,
        )
        check_extraction(report, events, self._a.review)
        return report

    def _freeze(
        self, description: Description, extraction: ExtractionReport, events: frozenset[str]
    ) -> StoreDump:
        dumps: list[StoreDump] = []

        def frozen() -> FrozenStore:
            snapshot = self._answer(Snapshot, self._adapter.freeze)
            dump = self._answer(StoreDump, self._adapter.dump)
            check_snapshot(snapshot, description, dump, extraction, events)
            dumps.append(dump)
            self._look_back()
            data = archive_of(self._a.place.workdir)
            return FrozenStore(
                dump_sha256=self._keep("dump", dump.canonical()),
                archive_sha256=self._keep("store.tar", data),
                archive_bytes=len(data),
                memories=len(dump.memories),
                tokens=sum(self._counter.count(memory.text) for memory in dump.memories),
            )

        self._store = self._step(Step.FREEZE, "store", NOTHING, frozen)
        return dumps[0]

    def _look_back(self) -> None:
        """Keeps what the store held at a time, if somebody asked for that."""
        if self._a.as_of is not None:
            as_of = in_form_of(self._a.as_of, self._a.clock.now())
            past = self._answer(StoreDump, lambda: self._adapter.dump(as_of))
            check_past(past, as_of)
            self._keep("dump-as-of", past.canonical())

    def _retrieved(
        self, description: Description, dump: StoreDump, events: frozenset[str]
    ) -> Ranked:
        ranked = self._answer(Ranked, lambda: self._adapter.retrieve(self._a.query))
        check_ranked(ranked, self._a.query, description, dump, events)
        self._unchanged(Step.RETRIEVE)
        self._items = tuple(
            MemoryItem(
                item_id=item.memory_id, text=item.text, source_event_ids=item.source_event_ids
            )
            for item in ranked.items
        )
        return ranked

    def _compiled(self, ranked: Ranked) -> CompiledContext:
        budget = self._a.condition.budget
        if budget is None:
            raise broken("within-budget", "expected a budget, found none")
        context = self._answer(CompiledContext, lambda: self._adapter.compile(ranked, budget))
        check_context(context, ranked, budget, self._counter)
        self._unchanged(Step.COMPILE)
        return context

    def _unchanged(self, step: Step) -> None:
        """The store is what it was at the freeze, by its dump and by its files."""
        store = self._store
        dump = self._answer(StoreDump, self._adapter.dump)
        archive_sha256 = sha256_hex(archive_of(self._a.place.workdir))
        if store is None or (dump.digest_sha256(), archive_sha256) != (
            store.dump_sha256,
            store.archive_sha256,
        ):
            raise broken(
                "frozen-is-frozen",
                f"{step.value}: expected the store as it was frozen, found another dump or other files",
            )

    def _close(self) -> None:
        fault: AdapterFault | None = None
        if self._watchdog.hung:
            # What hangs is let go from another thread: a program is ended by that.
            self._watchdog = Watchdog(ours=self._a.ours)
        try:
            self._call(self._adapter.close)
        except AdapterFault as found:
            fault = found
        finally:
            self._watchdog.end()
        self._record(Step.CLOSE, NOTHING, None, fault)

    def _remembered(
        self, context: CompiledContext | None, failure: ContractFailure | None
    ) -> Remembered:
        events = [event for report in self._captures for event in report.events]
        store = self._store if self._description and self._description.stores else None
        return Remembered(
            condition_id=self._a.condition.id,
            adapter=self._a.condition.adapter,
            captured_events=sum(event.outcome == "captured" for event in events),
            capture_drops=tuple(
                CaptureDrop(event_id=event.event_id, reason=event.reason)
                for event in events
                if event.reason is not None
            ),
            store_sha256=store.dump_sha256 if store else None,
            archive_sha256=store.archive_sha256 if store else None,
            items=self._items,
            steps=tuple(self._steps),
            context=context,
            failure=failure,
        )


def sessions_sha256(sessions: tuple[Session, ...]) -> str:
    """Returns the digest of what is ingested: equal in every arm of a task, or the arms are unequal."""
    return sha256_hex(b"\n".join(session.canonical() for session in sessions))

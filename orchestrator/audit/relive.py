"""The life of a memory system, checked again from what each step answered, and what was put before the agent.

The harness's own checks run over the recorded answers; a step that failed left none, and that it failed is
the record's own word. Reads the blobs of one attempt.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from orchestrator.audit.attempts import Attempted
from orchestrator.core.canonical import sha256_hex
from orchestrator.memory.checks import (
    check_capture,
    check_context,
    check_description,
    check_extraction,
    check_ranked,
    check_snapshot,
)
from orchestrator.memory.compile import injection_of
from orchestrator.memory.faults import AdapterFault
from orchestrator.memory.life import NOTHING, sessions_sha256
from orchestrator.memory.sessions import sessions_of
from orchestrator.model.base import Document
from orchestrator.model.lifecycle import (
    DESCRIPTION,
    CaptureReports,
    CompiledContext,
    Description,
    ExtractionReport,
    FrozenStore,
    Query,
    Ranked,
    Session,
    Snapshot,
    Step,
    StoreDump,
)
from orchestrator.model.memory import CaptureDrop, Injection, MemoryItem, Remembered
from orchestrator.model.record import Stage
from orchestrator.pipeline.gold import gold_for
from orchestrator.pipeline.parity import query_of

D = TypeVar("D", bound=Document)

ANSWERS: dict[Step, str] = {
    Step.DESCRIBE: DESCRIPTION,
    Step.INGEST: "captures",
    Step.SETTLE: "extraction",
    Step.FREEZE: "store",
    Step.RETRIEVE: "ranked",
    Step.COMPILE: "context",
}
"""Under which name a step's answer is kept; the others answer nothing."""


@dataclass(frozen=True, slots=True)
class _Answers:
    """What the steps answered; None where a life did not get that far."""

    description: Description | None
    captures: CaptureReports | None
    extraction: ExtractionReport | None
    dump: StoreDump | None
    store: FrozenStore | None
    ranked: Ranked | None
    context: CompiledContext | None

    @property
    def events(self) -> frozenset[str]:
        """The events that were ingested."""
        reports = self.captures.reports if self.captures else ()
        return frozenset(event.event_id for report in reports for event in report.events)


def check_life(seen: Attempted) -> None:
    """Checks steps, answers and outcome of stage `remember`.

    Raises:
        MemtrialError: a step, an answer or a figure does not follow from history, query and arm.
    """
    if not seen.has(Stage.REMEMBER):
        return
    said = seen.document(Stage.REMEMBER, Remembered)
    answers = _answers(seen)
    sessions = sessions_of(seen.tasks.history(seen.trial.task_id))
    brief = seen.tasks.brief(seen.trial.task_id)
    files = seen.plan.parity.files_in_scope
    query = query_of(brief, seen.condition.retrieve_k, files=files)
    _check_steps(seen, said, answers, (sessions, query))
    try:
        _check_answers(seen, answers, sessions, query)
    except AdapterFault as fault:
        raise seen.differs("answers that the harness takes", fault.message) from fault
    _check_store(seen, answers)
    again = _remembered(seen, said, answers)
    wrong = [name for name, value in again if value != getattr(said, name)]
    seen.require("fields of what was remembered that differ", [], wrong)


def check_injection(seen: Attempted) -> None:
    """Compiles again what was put before the agent, from the recorded context, the arm and the prompt.

    Raises:
        MemtrialError: the recorded injection is another.
    """
    if not seen.has(Stage.INJECT):
        return
    said = seen.document(Stage.INJECT, Injection)
    context = seen.document(Stage.REMEMBER, Remembered).context
    prompt = seen.tasks.brief(seen.trial.task_id).prompt
    again = injection_of(context, seen.condition, prompt, seen.counter)
    wrong = [name for name, value in again if value != getattr(said, name)]
    seen.require("fields of the injection that differ from what memory compiled", [], wrong)


def _answers(seen: Attempted) -> _Answers:
    def read(name: str, kind: type[D]) -> D | None:
        data = seen.found(Stage.REMEMBER, name)
        return None if data is None else kind.parse_canonical(data, where=name)

    return _Answers(
        description=read(DESCRIPTION, Description),
        captures=read("captures", CaptureReports),
        extraction=read("extraction", ExtractionReport),
        dump=read("dump", StoreDump),
        store=read("store", FrozenStore),
        ranked=read("ranked", Ranked),
        context=read("context", CompiledContext),
    )


def _check_steps(
    seen: Attempted, said: Remembered, answers: _Answers, told: tuple[tuple[Session, ...], Query]
) -> None:
    """Every step was taken, noted and fed as the harness does it; a fault ends the life, and `close` any."""
    seen.require(
        "steps that the ledger noted", list(said.steps), [m.record for m in seen.record.memory]
    )
    lived = [record for record in said.steps if record.step is not Step.CLOSE]
    if not lived or said.steps[-1].step is not Step.CLOSE:
        raise seen.differs("a life from its description to its close", "less")
    last = Step.COMPILE if seen.condition.budget else Step.RETRIEVE
    if lived[-1].failure is None and lived[-1].step is not last:
        raise seen.differs(f"a life to its step {last.value}", lived[-1].step.value)
    seen.require("the failure that ended it", lived[-1].failure, said.failure)
    inputs = {
        Step.INGEST: sessions_sha256(told[0]),
        Step.RETRIEVE: told[1].digest_sha256(),
        Step.COMPILE: answers.ranked.digest_sha256() if answers.ranked else NOTHING,
    }
    for record in said.steps:
        step = record.step
        name = ANSWERS.get(step)
        data = seen.found(Stage.REMEMBER, name) if name else None
        seen.require(f"input of {step.value}", inputs.get(step, NOTHING), record.input_sha256)
        answer = None if data is None else sha256_hex(data)
        seen.require(f"answer of {step.value}", answer, record.answer_sha256)
        if step is not Step.CLOSE and record.failure is not None and record is not lived[-1]:
            raise seen.differs(f"no step after the failed {step.value}", "one")
        if name and (answer is None) == (record.failure is None):
            raise seen.differs(f"an answer of {step.value} or its failure", "neither, or both")


def _check_answers(
    seen: Attempted, answers: _Answers, sessions: tuple[Session, ...], query: Query
) -> None:
    """The harness's own checks of every answer."""
    condition, events = seen.condition, answers.events
    if answers.description is not None:
        gold = gold_for(condition, seen.tasks.key(seen.trial.task_id)) is not None
        check_description(answers.description, condition, gold=gold)
    if answers.captures is not None:
        seen.require("reports of sessions", len(sessions), len(answers.captures.reports))
        for session, report in zip(sessions, answers.captures.reports, strict=True):
            check_capture(session, report)
    if answers.extraction is not None:
        review = seen.tasks.review(condition.id, seen.trial.task_id)
        check_extraction(answers.extraction, events, review)
    described = answers.description
    if described is not None and answers.dump is not None and answers.extraction is not None:
        dump = answers.dump
        snapshot = Snapshot(dump_sha256=dump.digest_sha256(), memories=len(dump.memories))
        check_snapshot(snapshot, described, dump, answers.extraction, events)
    if answers.ranked is not None and answers.description is not None and answers.dump is not None:
        check_ranked(answers.ranked, query, answers.description, answers.dump, events)
    if answers.context is not None and answers.ranked is not None and condition.budget is not None:
        check_context(answers.context, answers.ranked, condition.budget, seen.counter)


def _check_store(seen: Attempted, answers: _Answers) -> None:
    """The frozen store's figures are those of its dump and archive."""
    archive = seen.found(Stage.REMEMBER, "store.tar")
    if answers.store is None or answers.dump is None or archive is None:
        seen.require(
            "parts of a frozen store", (None, None, None), (answers.store, answers.dump, archive)
        )
        return
    again = FrozenStore(
        dump_sha256=answers.dump.digest_sha256(),
        archive_sha256=sha256_hex(archive),
        archive_bytes=len(archive),
        memories=len(answers.dump.memories),
        tokens=sum(seen.counter.count(memory.text) for memory in answers.dump.memories),
    )
    seen.require("the store of dump and archive", again, answers.store)


def _remembered(seen: Attempted, said: Remembered, answers: _Answers) -> Remembered:
    """Makes the stage's document again; what a failed ingest had captured before is as said."""
    events = [e for r in (answers.captures.reports if answers.captures else ()) for e in r.events]
    broke_at_ingest = said.failure is not None and said.failure.step is Step.INGEST
    drops = tuple(
        CaptureDrop(event_id=event.event_id, reason=event.reason)
        for event in events
        if event.reason is not None
    )
    captured = sum(event.outcome == "captured" for event in events)
    stores = answers.description is not None and answers.description.stores
    store = answers.store if stores else None
    return Remembered(
        condition_id=seen.condition.id,
        adapter=seen.condition.adapter,
        captured_events=said.captured_events if broke_at_ingest else captured,
        capture_drops=said.capture_drops if broke_at_ingest else drops,
        store_sha256=store.dump_sha256 if store else None,
        archive_sha256=store.archive_sha256 if store else None,
        items=tuple(
            MemoryItem(
                item_id=item.memory_id, text=item.text, source_event_ids=item.source_event_ids
            )
            for item in (answers.ranked.items if answers.ranked else ())
        ),
        steps=said.steps,
        context=answers.context,
        failure=said.failure,
    )

"""The order that a ledger's entries must have: what the pipeline can have written, and nothing else. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from orchestrator.core.errors import IntegrityError
from orchestrator.ledger.history import AttemptRecord, RunRecord, TrialRecord
from orchestrator.model.lifecycle import follows
from orchestrator.model.outcome import Outcome
from orchestrator.model.plan import Plan
from orchestrator.model.record import (
    AttemptEnded,
    AttemptStarted,
    LedgerEntry,
    MemoryStep,
    RunEnded,
    RunStarted,
    Stage,
    StageDone,
)

_STAGES = tuple(Stage)


def check_order(entries: Iterable[LedgerEntry], plan: Plan) -> int:
    """Replays the entries against the rules; returns how many times the clock went back.

    Raises:
        IntegrityError: an entry stands where the pipeline cannot have written it.
    """
    state = _State(plan)
    last, back = "", 0
    for entry in entries:
        state.take(entry)
        back += entry.at < last
        last = entry.at
    return back


class _State:
    """What has been recorded so far."""

    def __init__(self, plan: Plan) -> None:
        self._keys = {trial.key for trial in plan.trials}
        self._run = RunRecord()

    def take(self, entry: LedgerEntry) -> None:
        """Checks one entry and adds it."""
        body = entry.body
        if isinstance(body, RunStarted) != (entry.seq == 0):
            raise _refuse(entry, "the run's start as the first entry and nowhere else")
        if isinstance(body, AttemptStarted):
            self._start(entry, body)
        elif isinstance(body, MemoryStep):
            self._memory(entry, body)
        elif isinstance(body, StageDone):
            self._stage(entry, body)
        elif isinstance(body, AttemptEnded):
            self._end(entry, body)
        elif isinstance(body, RunEnded):
            done = sum(1 for trial in self._run.trials.values() if trial.final)
            if (body.trials, body.completed) != (len(self._keys), done):
                raise _refuse(entry, f"{done} of {len(self._keys)} trials ended for good")

    def _start(self, entry: LedgerEntry, body: AttemptStarted) -> None:
        if body.trial not in self._keys:
            raise _refuse(entry, "a trial of the plan")
        trial = self._run.trials.setdefault(body.trial, TrialRecord())
        if (
            trial.open_attempt is not None
            or trial.final is not None
            or body.attempt != len(trial.attempts) + 1
        ):
            raise _refuse(entry, "the next attempt of a trial that has not ended for good")
        trial.attempts.append(AttemptRecord(body.attempt))

    def _stage(self, entry: LedgerEntry, body: StageDone) -> None:
        attempt = self._open(entry, body.trial, body.attempt)
        following = _STAGES[: len(attempt.stages) + 1][-1]
        # Misconduct that is seen after the injection is graded at once; `_end` knows that case.
        early = body.stage is Stage.GRADE and Stage.INJECT in attempt.stages
        if body.stage in attempt.stages or not (body.stage is following or early):
            raise _refuse(entry, "the stages in order, each once")
        attempt.stages[body.stage] = body

    def _memory(self, entry: LedgerEntry, body: MemoryStep) -> None:
        attempt = self._open(entry, body.trial, body.attempt)
        remembering = list(attempt.stages) == [Stage.PREPARE]
        last = attempt.memory[-1].record.step if attempt.memory else None
        if not remembering or not follows(last, body.record.step):
            raise _refuse(entry, "the steps of a memory system in order, within its stage")
        attempt.memory.append(body)

    def _end(self, entry: LedgerEntry, body: AttemptEnded) -> None:
        attempt = self._open(entry, body.trial, body.attempt)
        graded = attempt.stages.get(Stage.GRADE)
        whole = len(attempt.stages) == len(_STAGES) or body.outcome is Outcome.MISCONDUCT
        if body.verdict_sha256 is not None and not (
            whole and graded and graded.document_sha256 == body.verdict_sha256
        ):
            raise _refuse(entry, "a verdict only from a grade after every stage")
        attempt.ended = body

    def _open(self, entry: LedgerEntry, trial: str, number: int) -> AttemptRecord:
        attempt = self._run.trial(trial).open_attempt
        if attempt is None or attempt.number != number:
            raise _refuse(entry, "an attempt that is under way")
        return attempt


def _refuse(entry: LedgerEntry, expected: str) -> IntegrityError:
    return IntegrityError(
        "ledger-out-of-order",
        f"ledger.jsonl line {entry.seq + 1}: expected {expected}, found {entry.body.kind}",
        hint="no memtrial writes such a record: get the bundle again from its source",
    )

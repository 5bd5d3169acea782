"""What a ledger says about each trial: finished, half-way, or not begun. Pure over entries."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.core.errors import IntegrityError
from orchestrator.model.outcome import Outcome
from orchestrator.model.record import (
    AttemptEnded,
    AttemptStarted,
    LedgerEntry,
    MemoryStep,
    RunApproved,
    RunEnded,
    RunResumed,
    RunStarted,
    Stage,
    StageDone,
)


@dataclass(slots=True)
class AttemptRecord:
    """One attempt as recorded so far."""

    number: int
    stages: dict[Stage, StageDone] = field(default_factory=dict)
    ended: AttemptEnded | None = None
    memory: list[MemoryStep] = field(default_factory=list)

    @property
    def goes_on(self) -> bool:
        """Whether a later process can end it: its harvest or its grade needs no container of its own."""
        return Stage.HARVEST in self.stages or Stage.GRADE in self.stages


@dataclass(slots=True)
class TrialRecord:
    """All attempts of one trial."""

    attempts: list[AttemptRecord] = field(default_factory=list)

    @property
    def graded(self) -> AttemptRecord | None:
        """The attempt that carries the verdict, if there is one."""
        return next((a for a in self.attempts if a.ended and a.ended.verdict_sha256), None)

    @property
    def final(self) -> AttemptEnded | None:
        """How the trial ended for good, if it did: with a verdict or as inadmissible."""
        return next((a.ended for a in self.attempts if a.ended and a.ended.final), None)

    def count(self, outcome: Outcome) -> int:
        """Returns how many attempts ended in an outcome."""
        return sum(1 for a in self.attempts if a.ended and a.ended.outcome is outcome)

    @property
    def open_attempt(self) -> AttemptRecord | None:
        """The attempt that a dead process left half-way, if there is one."""
        return next((a for a in self.attempts if a.ended is None), None)


@dataclass(slots=True)
class RunRecord:
    """A run as its ledger tells it."""

    started: RunStarted | None = None
    approved: RunApproved | None = None
    ended: list[RunEnded] = field(default_factory=list)
    resumed: int = 0
    trials: dict[str, TrialRecord] = field(default_factory=dict)

    def trial(self, key: str) -> TrialRecord:
        """Returns the record of a trial; an empty one if nothing was recorded."""
        return self.trials.get(key) or TrialRecord()


def nothing_recorded(folder: Path) -> IntegrityError:
    """Returns the refusal of a run that was ended before its first entry."""
    return IntegrityError(
        "run-not-begun",
        f"{folder.name}: expected a ledger with a first entry, found none: the run was ended before anything was recorded",
        hint=f"start it anew with `memtrial run {folder / 'plan.json'}`; this folder can be removed",
    )


def replay(entries: list[LedgerEntry]) -> RunRecord:
    """Folds the entries into the state of the run."""
    run = RunRecord()
    for entry in entries:
        body = entry.body
        if isinstance(body, RunStarted):
            run.started = body
        elif isinstance(body, RunApproved):
            run.approved = run.approved or body
        elif isinstance(body, RunResumed):
            run.resumed += 1
        elif isinstance(body, RunEnded):
            run.ended.append(body)
        elif isinstance(body, AttemptStarted):
            run.trials.setdefault(body.trial, TrialRecord()).attempts.append(
                AttemptRecord(body.attempt)
            )
        elif isinstance(body, MemoryStep):
            _attempt(run, body.trial, body.attempt).memory.append(body)
        elif isinstance(body, StageDone):
            _attempt(run, body.trial, body.attempt).stages[body.stage] = body
        elif isinstance(body, AttemptEnded):
            _attempt(run, body.trial, body.attempt).ended = body
    return run


def _attempt(run: RunRecord, trial: str, number: int) -> AttemptRecord:
    record = run.trials.setdefault(trial, TrialRecord())
    # Nearly every entry is of the latest attempt.
    for attempt in reversed(record.attempts):
        if attempt.number == number:
            return attempt
    attempt = AttemptRecord(number)
    record.attempts.append(attempt)
    return attempt

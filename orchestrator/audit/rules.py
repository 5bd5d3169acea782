"""The order that a ledger's entries must have: the pipeline's own state machine, and nothing else. Pure.

Looks at entries and plan alone; whether an end follows from an attempt's documents is for `audit.ends`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from orchestrator.core.errors import IntegrityError
from orchestrator.core.words import counted
from orchestrator.ledger.history import AttemptRecord, TrialRecord
from orchestrator.model.chronology import sortable
from orchestrator.model.gateway import LivePin
from orchestrator.model.lifecycle import follows
from orchestrator.model.outcome import RETRIED, Outcome
from orchestrator.model.plan import Plan
from orchestrator.model.record import (
    AttemptEnded,
    AttemptStarted,
    Body,
    LedgerEntry,
    MemoryStep,
    RunApproved,
    RunEnded,
    RunResumed,
    RunStarted,
    Stage,
    StageDone,
)

CONDEMNED = "misconduct"
"""The artifact that the grade of a condemned attempt has and no other."""

DIED = "orchestrator-died"
_STAGES = tuple(Stage)
_ENDS_AT: dict[Outcome, frozenset[Stage | None]] = {
    Outcome.INADMISSIBLE: frozenset({Stage.PREPARE, Stage.ISOLATE, Stage.ACT, Stage.SCREEN}),
    Outcome.BUDGET: frozenset({None, Stage.ACT}),
}
"""After which stage an attempt without a verdict may end so; other outcomes may end one anywhere."""


@dataclass(frozen=True, slots=True)
class Order:
    """What a sound order leaves to be told. `ended`: the last process recorded its end.

    `after_act` counts the attempts without a verdict whose agent had acted: a result may have been thrown away.
    """

    clock_back: int
    ended: bool
    unscored: tuple[tuple[Outcome, int], ...]
    after_act: int

    @property
    def whole(self) -> bool:
        """Whether nothing in it can only be taken as said: it has its end, and no agent acted for nothing."""
        return self.ended and not self.after_act

    def told(self) -> str:
        """Returns it in words."""
        said = [f"the clock went back {self.clock_back} times"] if self.clock_back else []
        if self.unscored:
            kinds = ", ".join(f"{count} {outcome.value}" for outcome, count in self.unscored)
            attempts = counted(sum(count for _, count in self.unscored), "attempt")
            said.append(
                f"{attempts} without a verdict ({kinds}), {self.after_act} after the agent had acted: why is the record's own word"
            )
        if not self.ended:
            said.append("no end of the run is recorded: what came last may be missing")
        return "; ".join(said)


def clock_back(entries: Sequence[LedgerEntry]) -> int:
    """Returns how often a line says an earlier time than the one before it, in whatever form either says it."""
    times = (sortable(entry.at) for entry in entries)
    return sum(later < at for at, later in pairwise(times))


def check_order(entries: Sequence[LedgerEntry], plan: Plan) -> Order:
    """Replays the entries against the rules.

    Raises:
        IntegrityError: an entry stands where the pipeline cannot have written it.
    """
    state = _State(plan)
    for entry in entries:
        state.take(entry)
    unscored = tuple(sorted(state.unscored.items()))
    return Order(clock_back(entries), state.ended, unscored, state.after_act)


class _State:
    """What has been recorded so far, and what the present process has done.

    Each entry costs the same, however many attempts stand before it: only the latest attempt of a trial can be
    under way, as none begins before the one before it has ended.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._keys = {trial.key for trial in plan.trials}
        self._trials: dict[str, TrialRecord] = {}
        self._ranks: dict[str, int] = {}
        self._under_way: dict[str, AttemptRecord] = {}
        self._done: set[str] = set()
        self._tries: Counter[str] = Counter()
        self._touched: set[str] = set()
        self._dead: list[str] = []
        self.ended = False
        self.unscored: Counter[Outcome] = Counter()
        self.after_act = 0

    def take(self, entry: LedgerEntry) -> None:
        """Checks one entry and adds it."""
        body = entry.body
        if isinstance(body, RunStarted) != (entry.seq == 0):
            raise _refuse(entry, "the run's start as the first entry and nowhere else")
        if isinstance(body, RunResumed):
            self._resume()
        elif self.ended:
            raise _refuse(entry, "a resumption after the end of a process")
        elif self._dead:
            self._close(entry, body)
        else:
            self._step(entry, body)

    def _step(self, entry: LedgerEntry, body: Body) -> None:
        if isinstance(body, RunApproved):
            if entry.seq != 1 or not isinstance(self._plan.gateway, LivePin):
                raise _refuse(entry, "an approval of a live plan, as the second entry")
        elif isinstance(body, AttemptStarted):
            self._start(entry, body)
        elif isinstance(body, MemoryStep):
            self._memory(entry, body)
        elif isinstance(body, StageDone):
            self._stage(entry, body)
        elif isinstance(body, AttemptEnded):
            self._end(entry, body)
        elif isinstance(body, RunEnded):
            self._run_ended(entry, body)

    def _resume(self) -> None:
        """A new process: the policy holds anew, and what died before its harvest is closed at once.

        It closes trial by trial, in the order in which the trials were first begun (`Run._close_interrupted`).
        """
        self.ended = False
        self._tries.clear()
        self._touched.clear()
        self._dead = []
        for key in sorted(self._under_way, key=self._ranks.__getitem__):
            if self._under_way[key].goes_on:
                self._tries[key] = 1
            else:
                self._dead.append(key)

    def _close(self, entry: LedgerEntry, body: Body) -> None:
        key = self._dead[0]
        if not (
            isinstance(body, AttemptEnded)
            and (body.trial, body.outcome, body.error_reference) == (key, Outcome.CANCELLED, DIED)
        ):
            raise _refuse(entry, f"the end of the attempt of {key} that died with its process")
        self._finish(self._open(entry, body.trial, body.attempt), body)
        del self._dead[0]

    def _start(self, entry: LedgerEntry, body: AttemptStarted) -> None:
        if body.trial not in self._keys:
            raise _refuse(entry, "a trial of the plan")
        trial = self._trials.setdefault(body.trial, TrialRecord())
        if (
            body.trial in self._under_way
            or body.trial in self._done
            or body.attempt != len(trial.attempts) + 1
        ):
            raise _refuse(entry, "the next attempt of a trial that has not ended for good")
        tries, allowed = self._tries[body.trial], self._plan.retry.max_attempts
        before = trial.attempts[-1].ended if tries else None
        if tries >= allowed or (before is not None and before.outcome not in RETRIED):
            raise _refuse(
                entry,
                f"at most {allowed} attempts in a process, each after one that the plan tries again",
            )
        self._tries[body.trial] += 1
        self._touched.add(body.trial)
        self._ranks.setdefault(body.trial, len(self._ranks))
        self._under_way[body.trial] = AttemptRecord(body.attempt)
        trial.attempts.append(self._under_way[body.trial])

    def _stage(self, entry: LedgerEntry, body: StageDone) -> None:
        attempt = self._open(entry, body.trial, body.attempt)
        if body.stage is not _STAGES[: len(attempt.stages) + 1][-1] or body.stage in attempt.stages:
            raise _refuse(entry, "the stages in order, each once")
        if body.stage is Stage.SEAL and _is_condemned(attempt):
            raise _refuse(entry, "no seal over an attempt that was condemned")
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
        if graded is not None:
            self._end_graded(entry, body, attempt, graded)
        elif body.verdict_sha256 is not None:
            raise _refuse(entry, "a verdict only from a grade after every stage")
        else:
            self._end_unscored(entry, body, attempt)
        self._finish(attempt, body)

    def _end_graded(
        self, entry: LedgerEntry, body: AttemptEnded, attempt: AttemptRecord, graded: StageDone
    ) -> None:
        condemned = _is_condemned(attempt)
        if graded.document_sha256 != body.verdict_sha256:
            raise _refuse(entry, "the recorded grade as the end of an attempt that was graded")
        if condemned != (body.outcome is Outcome.MISCONDUCT):
            raise _refuse(entry, "misconduct exactly where the grade is one of misconduct")
        if not condemned and Stage.SEAL not in attempt.stages:
            raise _refuse(entry, "a verdict only from a grade after every stage")
        if (body.error, body.error_reference, body.evidence) != (None, None, None):
            raise _refuse(entry, "no error at the end of an attempt with a verdict")

    def _end_unscored(self, entry: LedgerEntry, body: AttemptEnded, attempt: AttemptRecord) -> None:
        last = next(reversed(attempt.stages), None)
        if last not in _ENDS_AT.get(body.outcome, {last}):
            after = f"after {last.value}" if last else "before any stage"
            raise _refuse(entry, f"no end as {body.outcome.value} {after}")
        if body.outcome is Outcome.BUDGET and self._plan.gateway is None:
            raise _refuse(entry, "no cap of a plan that asks no model")
        if body.error is None or body.error_reference in {None, DIED}:
            raise _refuse(entry, "the reason of an attempt that ended without a verdict")
        if (body.outcome is Outcome.INADMISSIBLE) and body.evidence is None:
            raise _refuse(entry, "the evidence of an attempt that is inadmissible")

    def _finish(self, attempt: AttemptRecord, body: AttemptEnded) -> None:
        attempt.ended = body
        del self._under_way[body.trial]
        if body.final:
            self._done.add(body.trial)
        if body.verdict_sha256 is None:
            self.unscored[body.outcome] += 1
            self.after_act += Stage.ACT in attempt.stages

    def _run_ended(self, entry: LedgerEntry, body: RunEnded) -> None:
        if not self._touched.isdisjoint(self._under_way):
            raise _refuse(entry, "every attempt of this process at its end")
        done = len(self._done)
        if (body.trials, body.completed) != (len(self._keys), done):
            raise _refuse(entry, f"{done} of {len(self._keys)} trials ended for good")
        self.ended = True

    def _open(self, entry: LedgerEntry, trial: str, number: int) -> AttemptRecord:
        attempt = self._under_way.get(trial)
        if attempt is None or attempt.number != number:
            raise _refuse(entry, "an attempt that is under way")
        self._touched.add(trial)
        return attempt


def _is_condemned(attempt: AttemptRecord) -> bool:
    graded = attempt.stages.get(Stage.GRADE)
    return graded is not None and any(item.name == CONDEMNED for item in graded.artifacts)


def _refuse(entry: LedgerEntry, expected: str) -> IntegrityError:
    return IntegrityError(
        "ledger-out-of-order",
        f"ledger.jsonl line {entry.seq + 1}: expected {expected}, found {entry.body.kind}",
        hint="no memtrial writes such a record: get the bundle again from its source",
    )

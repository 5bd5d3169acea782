"""A run on disk: creating it, opening it again, and working its trials off with a pool of threads.

`results/<run>/` holds plan.json, ledger.jsonl, blobs/ and the report. Each attempt ends in exactly one
outcome (model/outcome.py); infrastructure errors are retried within the plan's policy, never scored.
"""

from __future__ import annotations

import secrets
import shlex
import threading
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path

from orchestrator.attest.program import program_sha256
from orchestrator.core.clock import monotonic_ms, run_stamp
from orchestrator.core.errors import DocumentError, IntegrityError, MemtrialError, UsageError
from orchestrator.core.files import relink, write_atomic
from orchestrator.ledger.blobs import BlobStore
from orchestrator.ledger.chain import Ledger, read_entries
from orchestrator.ledger.history import AttemptRecord, RunRecord, nothing_recorded, replay
from orchestrator.model.outcome import RETRIED, Outcome, outcome_of_error
from orchestrator.model.plan import Plan, Trial
from orchestrator.model.record import (
    AttemptEnded,
    AttemptStarted,
    RunEnded,
    RunResumed,
    RunStarted,
    Stage,
)
from orchestrator.model.verdict import Verdict
from orchestrator.pipeline.bench import Bench
from orchestrator.pipeline.journal import Journal
from orchestrator.pipeline.live import Approve
from orchestrator.pipeline.prefix import signed_prefix
from orchestrator.pipeline.retry import retrying
from orchestrator.pipeline.trial import run_trial
from orchestrator.pipeline.watch import Watch


@dataclass(frozen=True, slots=True)
class TrialEnd:
    """What a finished trial tells the progress display."""

    trial: Trial
    done: int
    total: int
    outcome: Outcome
    verdict: Verdict | None
    error: str | None
    wall_ms: int


@dataclass(frozen=True, slots=True)
class _Ended:
    """An attempt's end as recorded, with its verdict if it has one."""

    entry: AttemptEnded
    verdict: Verdict | None


def _is_retried(end: _Ended | None) -> bool:
    return end is not None and end.entry.outcome in RETRIED


DOING = {
    Stage.PREPARE: "preparing",
    Stage.REMEMBER: "its memory was captured",
    Stage.INJECT: "its memory was compiled",
    Stage.ACT: "the agent acted",
    Stage.HARVEST: "harvesting",
    Stage.GRADE: "grading",
    Stage.SEAL: "sealing",
}
MakeBench = Callable[[Trial], Bench]
Progress = Callable[[TrialEnd], None]


class Run:
    """An open run. One process at a time."""

    def __init__(self, folder: Path, plan: Plan, ledger: Ledger, record: RunRecord) -> None:
        self.folder = folder
        self.plan = plan
        self.blobs = BlobStore(folder / "blobs")
        self._ledger = ledger
        self._record = record
        self._stop = threading.Event()
        self._active: set[str] = set()
        self._watch: Watch | None = None

    @classmethod
    def create(
        cls,
        results: Path,
        plan: Plan,
        *,
        engine: str,
        workers: int,
        approve: Approve | None = None,
        replayed: bool = False,
    ) -> Run:
        """Makes the folder of a new run and points `latest` at it, but for a recording that is played again.

        `approve` uses the approval of a live run up, for this run's id, before anything is made.
        """
        plan_sha256 = plan.digest_sha256()
        run_id = f"{run_stamp().lower()}-{plan_sha256[:8]}-{secrets.token_hex(2)}"
        approved = approve(run_id) if approve else None
        folder = results / run_id
        folder.mkdir(parents=True)
        write_atomic(folder / "plan.json", plan.canonical())
        if approved:
            approved.write(folder)
        ledger = Ledger.create(folder / "ledger.jsonl")
        ledger.append(
            RunStarted(
                run_id=run_id,
                plan_sha256=plan_sha256,
                engine=engine,
                workers=workers,
                program_sha256=program_sha256(),
            )
        )
        if approved:
            ledger.append(approved.entry)
        if not replayed:
            relink(results / "latest", run_id)
        return cls(folder, plan, ledger, RunRecord())

    @classmethod
    def resume(cls, folder: Path, *, full: bool = False) -> Run:
        """Opens an unfinished run, repairs a torn last line, and closes attempts that cannot go on.

        Lines that a signed checkpoint of an earlier seal covers are compared by its root; `full` checks
        every line and every blob one by one instead.

        Raises:
            DocumentError: the plan is invalid.
            IntegrityError: plan or ledger are missing or not the recorded ones.
        """
        plan = recorded_plan(folder)
        signed = None if full else signed_prefix(folder)
        ledger, entries, torn = Ledger.open_for_append(
            folder / "ledger.jsonl", repair=True, signed=signed
        )
        record = replay(entries)
        try:
            check_plan_is_recorded(plan, record, folder)
            if full:
                BlobStore(folder / "blobs").check_all()
        except IntegrityError:
            ledger.close()
            raise
        ledger.append(RunResumed(torn_tail_bytes=torn))
        run = cls(folder, plan, ledger, record)
        run._close_interrupted()
        return run

    def _close_interrupted(self) -> None:
        """An attempt that died before its harvest cannot go on: its containers are gone; a grade stands."""
        for key, trial in self._record.trials.items():
            attempt = trial.open_attempt
            if attempt is None or attempt.goes_on:
                continue
            ended = AttemptEnded(
                trial=key,
                attempt=attempt.number,
                outcome=Outcome.CANCELLED,
                verdict_sha256=None,
                error_reference="orchestrator-died",
                error="the orchestrator ended in the middle of this attempt",
                wall_ms=0,
                container_ms=0,
            )
            self._ledger.append(ended)
            attempt.ended = ended

    def pending(self) -> list[Trial]:
        """Returns the trials that have not ended for good, in the plan's order."""
        return [trial for trial in self.plan.trials if self._record.trial(trial.key).final is None]

    def stop(self) -> None:
        """Begins no other trial; what breaks from now on is cancelled."""
        self._stop.set()

    @property
    def running(self) -> int:
        """How many trials are under way at this moment."""
        return len(self._active)

    def execute(
        self,
        make_bench: MakeBench,
        *,
        workers: int,
        progress: Progress,
        watch: Watch | None = None,
    ) -> int:
        """Works off the pending trials; returns how many are still without a verdict."""
        self._watch = watch
        began = monotonic_ms()
        todo = self.pending()
        total = len(self.plan.trials)
        done = total - len(todo)
        waiting: set[Future[TrialEnd]] = set()
        queue = iter(todo)
        with ThreadPoolExecutor(max_workers=workers, thread_name_prefix="trial") as pool:
            try:
                exhausted = False
                while waiting or not exhausted:
                    while not exhausted and len(waiting) < workers and not self._stop.is_set():
                        trial = next(queue, None)
                        exhausted = trial is None
                        if trial is not None:
                            waiting.add(pool.submit(self._trial, trial, make_bench))
                    exhausted = exhausted or self._stop.is_set()
                    finished, waiting = (
                        wait(waiting, return_when=FIRST_COMPLETED) if waiting else (set(), set())
                    )
                    for future in finished:
                        end = future.result()
                        done += 1
                        progress(replace(end, done=done, total=total))
            except BaseException:
                self._stop.set()
                raise
        left = len(self.pending())
        self._ledger.append(
            RunEnded(trials=total, completed=total - left, wall_ms=monotonic_ms() - began)
        )
        return left

    def _trial(self, trial: Trial, make_bench: MakeBench) -> TrialEnd:
        """Runs attempts of one trial until one ends for good or the policy is used up."""
        began = monotonic_ms()
        ends: list[_Ended] = []

        def once() -> _Ended | None:
            if not self._stop.is_set():
                ends.append(self._attempt(trial, make_bench))
            return ends[-1] if ends else None

        self._active.add(trial.key)
        try:
            retrying(self.plan.retry, self._stop, _is_retried)(once)
        finally:
            self._active.discard(trial.key)
            if self._watch:
                self._watch.ended(trial.key)
        last = ends[-1] if ends else None
        return TrialEnd(
            trial=trial,
            done=0,
            total=0,
            outcome=last.entry.outcome if last else Outcome.CANCELLED,
            verdict=last.verdict if last else None,
            error=last.entry.error if last else None,
            wall_ms=monotonic_ms() - began,
        )

    def _attempt(self, trial: Trial, make_bench: MakeBench) -> _Ended:
        """The attempt boundary: whatever goes wrong here is recorded as an outcome, never a verdict."""
        record = self._record.trials.setdefault(trial.key, self._record.trial(trial.key))
        attempt = record.open_attempt
        if attempt is None:
            attempt = AttemptRecord(len(record.attempts) + 1)
            self._ledger.append(AttemptStarted(trial=trial.key, attempt=attempt.number))
            record.attempts.append(attempt)
        watch = self._watch
        journal = Journal(
            *(self._ledger, self.blobs, trial.key, attempt.number, attempt),
            on_stage=lambda stage: watch.stage(trial.key, stage.value) if watch else None,
        )
        began = monotonic_ms()
        graded: tuple[Verdict, Outcome] | None = None
        fault: Exception | None = None
        try:
            graded = run_trial(make_bench(trial), journal)
        except Exception as error:  # noqa: BLE001 - the attempt boundary, one of the named places
            fault = error
        if fault is not None and journal.has(Stage.GRADE):
            raise fault  # What is graded is never tried again: `memtrial resume` ends this attempt.
        attempt.ended = self._ended(journal, graded, fault, monotonic_ms() - began)
        if attempt.ended.outcome is Outcome.CANCELLED:
            # A signal, or an approval that does not hold any more: either is for the whole run.
            self._stop.set()
        self._ledger.append(attempt.ended)
        return _Ended(attempt.ended, graded[0] if graded else None)

    def _ended(
        self,
        journal: Journal,
        graded: tuple[Verdict, Outcome] | None,
        fault: Exception | None,
        wall_ms: int,
    ) -> AttemptEnded:
        outcome = graded[1] if graded else outcome_of_error(fault or RuntimeError())
        seen = fault.evidence if isinstance(fault, MemtrialError) else ()
        reference = getattr(fault, "reference", type(fault).__name__.lower())
        text = f"{type(fault).__name__}: {fault}"[:2000]
        if self._stop.is_set() and outcome in {Outcome.INFRA_ERROR, Outcome.CANCELLED}:
            # What breaks while everything is being stopped was broken by the stop.
            if outcome is Outcome.INFRA_ERROR:
                seen = (*seen, text)
            outcome, reference = Outcome.CANCELLED, "trial-interrupted"
            text = f"interrupted while {DOING[journal.present]}; `memtrial resume {self.folder.name}` repeats it"
        return AttemptEnded(
            trial=journal.trial,
            attempt=journal.attempt,
            outcome=outcome,
            verdict_sha256=graded[0].digest_sha256() if graded else None,
            error_reference=None if fault is None else reference,
            error=None if fault is None else text,
            evidence=journal.evidence(seen) if seen else None,
            resources=journal.resources,
            wall_ms=wall_ms,
            container_ms=journal.container_ms_total,
        )

    def close(self) -> None:
        """Lets go of the ledger."""
        self._ledger.close()


def read_plan(path: Path) -> Plan:
    """Reads a plan file, whose bytes must be canonical.

    Raises:
        UsageError: there is no such file, or it is a folder.
        DocumentError: it is not a plan, or not its canonical bytes.
    """
    if path.is_dir():
        raise UsageError(
            "plan-is-folder",
            f"expected a plan file, found a folder: {path}",
            hint=_instead_of_folder(path),
        )
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(
            "plan-missing",
            f"expected a plan file, found {error.strerror or error}: {path}",
            hint="make one: `memtrial plan --agent oracle --out plan.json`",
        ) from error
    plan = Plan.parse(data.rstrip(b"\n"), where=path.name)
    if plan.canonical() != data.rstrip(b"\n"):
        raise DocumentError(
            "plan-not-canonical",
            f"{path.name}: expected RFC 8785 bytes, found other spacing or order",
            hint="make the plan with `memtrial plan` and do not edit it",
        )
    return plan


def _instead_of_folder(path: Path) -> str:
    if (path / "ledger.jsonl").is_file():
        return f"it holds a run: `memtrial resume {shlex.quote(str(path))}` goes on with it"
    if (path / "plan.json").is_file():
        return f"run `memtrial run {shlex.quote(str(path / 'plan.json'))}`"
    return "name the file that `memtrial plan --out FILE` wrote"


def recorded_plan(folder: Path) -> Plan:
    """Reads the plan of a run's folder.

    Raises:
        IntegrityError: it is not there, although a ledger is.
        DocumentError: it is not a plan, or not its canonical bytes.
    """
    path = folder / "plan.json"
    if not path.is_file():
        raise IntegrityError(
            "plan-lost",
            f"{folder.name}: expected the plan.json that the ledger began with, found none",
            hint=f"restore {path} from a copy",
        )
    return read_plan(path)


def pending_of(folder: Path, plan: Plan) -> list[Trial]:
    """Returns the trials of a run on disk that have not ended for good; changes nothing."""
    record = replay(read_entries(folder / "ledger.jsonl")[0])
    return [trial for trial in plan.trials if record.trial(trial.key).final is None]


def check_plan_is_recorded(plan: Plan, record: RunRecord, folder: Path) -> None:
    """Refuses a run whose plan is not the one that its ledger began with."""
    if record.started is None:
        raise nothing_recorded(folder)
    if record.started.plan_sha256 != plan.digest_sha256():
        raise IntegrityError(
            "plan-changed",
            f"{folder.name}: expected the plan that the ledger began with, found {plan.digest_sha256()[:16]}",
            hint="restore plan.json from a copy",
        )

"""Recomputes a run's report from plan, ledger and blobs. Two builds of one record give the same bytes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median_low
from typing import Literal

from orchestrator.core.errors import IntegrityError, unknown_name
from orchestrator.gateway.accounts import Accounts, read_accounts
from orchestrator.ledger.blobs import BlobReader, BlobStore
from orchestrator.ledger.chain import read_entries
from orchestrator.ledger.history import (
    AttemptRecord,
    RunRecord,
    TrialRecord,
    nothing_recorded,
    replay,
)
from orchestrator.model.attribution import Charge
from orchestrator.model.memory import Injection
from orchestrator.model.outcome import Outcome
from orchestrator.model.plan import Plan, Trial
from orchestrator.model.record import AttemptEnded, Stage
from orchestrator.model.report import (
    ArmRow,
    Block,
    Count,
    OutcomeCount,
    ReasonCount,
    RunReport,
    TrialRow,
)
from orchestrator.model.resources import add_up
from orchestrator.model.spending import CapCount
from orchestrator.model.trace import TRACE, MemoryTrace
from orchestrator.model.verdict import MEMORY_REASONS, FailureReason, Tally, Verdict
from orchestrator.report.check import check_blobs
from orchestrator.report.explain import NOT_RUN, why
from orchestrator.report.limits import limitations
from orchestrator.report.maintenance import maintenance_of
from orchestrator.report.memory import Told, charges_of, memory_rows
from orchestrator.report.spending import (
    TrialSpending,
    arm_spending,
    run_spending,
    trial_spendings,
)


@dataclass(frozen=True, slots=True)
class Graded:
    """A trial with what its record holds."""

    trial: Trial
    record: TrialRecord
    told: Told | None
    injection: Injection | None
    dropped: bool = False
    spent: TrialSpending | None = None

    @property
    def verdict(self) -> Verdict | None:
        """Its verdict, if it has one."""
        return self.told.verdict if self.told else None

    @property
    def resolved(self) -> bool:
        """Whether it counts as resolved for its arm."""
        return self.told is not None and self.told.resolved

    @property
    def last(self) -> AttemptEnded | None:
        """How the trial ended for good, or else how its last attempt ended."""
        ended = [a.ended for a in self.record.attempts if a.ended]
        return self.record.final or (ended[-1] if ended else None)

    @property
    def wall_ms(self) -> int:
        """Wall time of all attempts."""
        return sum(a.ended.wall_ms for a in self.record.attempts if a.ended)

    @property
    def container_ms(self) -> int:
        """Container time of all attempts."""
        return sum(a.ended.container_ms for a in self.record.attempts if a.ended)


def build_report(folder: Path) -> RunReport:
    """Builds the report of a run folder.

    Raises:
        IntegrityError: plan, ledger and blobs do not belong together.
        DocumentError: one of them is malformed.
    """
    plan = _plan(folder)
    entries, head, _ = read_entries(folder / "ledger.jsonl")
    run = replay(entries)
    if run.started is None:
        raise nothing_recorded(folder)
    blobs = BlobStore(folder / "blobs")
    check_plan(plan, run)
    check_blobs(run, blobs)
    accounts = read_accounts(lambda name: _optional(folder / name))
    return report_of(plan, run, head, blobs, accounts)


def _optional(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def read_trial(folder: Path, key: str) -> tuple[TrialRow, MemoryTrace | None]:
    """Returns the row of one trial and where its facts went.

    Raises:
        UsageError: the plan has no such trial.
        IntegrityError: plan, ledger and blobs do not belong together.
    """
    report = build_report(folder)
    rows = {row.trial: row for row in report.trials}
    if key not in rows:
        raise unknown_name("trial", key, rows, option="--explain; the report lists them")
    entries, _, _ = read_entries(folder / "ledger.jsonl")
    attempt = replay(entries).trial(key).graded
    blobs = BlobStore(folder / "blobs")
    return rows[key], _trace(key, attempt, blobs) if attempt else None


def check_plan(plan: Plan, run: RunRecord) -> None:
    """Refuses a plan that is not the one that a record began with."""
    if run.started is None or run.started.plan_sha256 != plan.digest_sha256():
        raise IntegrityError(
            "plan-changed",
            f"expected the plan that the ledger began with, found {plan.digest_sha256()[:16]}",
            hint="restore plan.json from a copy",
        )


def report_of(
    plan: Plan,
    run: RunRecord,
    head_sha256: str,
    blobs: BlobReader,
    accounts: Accounts | None,
) -> RunReport:
    """Builds the report of a record, wherever its bytes come from; no accounts: no gateway ran.

    Raises:
        IntegrityError: plan, ledger and blobs do not belong together.
        DocumentError: one of them is malformed.
    """
    check_plan(plan, run)
    if run.started is None:
        raise IntegrityError("run-not-begun", "expected a first entry, found none", hint="run it")
    spent = trial_spendings(plan, run, blobs, accounts)
    graded, blocks = _admitted(
        [
            replace(_graded(trial, run, blobs), spent=spent.get(trial.key))
            for trial in sorted(plan.trials, key=lambda t: t.key)
        ]
    )
    told = [item.told for item in graded if item.told is not None and not item.dropped]
    charges = charges_of(told)
    arms = [(agent.name, c.id) for agent in plan.agents for c in plan.conditions]
    return RunReport(
        run_id=run.started.run_id,
        plan_sha256=run.started.plan_sha256,
        ledger_head_sha256=head_sha256,
        source_revision=plan.source_revision,
        source_dirty=plan.source_dirty,
        diagnostic=plan.diagnostic,
        complete=all(item.record.final is not None for item in graded),
        arms=_arms(plan, graded),
        memory=memory_rows(told, charges, arms),
        maintenance=maintenance_of(plan),
        trials=tuple(_row(item, charges.get(item.trial.key)) for item in graded),
        inadmissible_blocks=blocks,
        spending=run_spending(plan, spent, accounts),
        wall_ms=sum(end.wall_ms for end in run.ended),
        container_ms=sum(item.container_ms for item in graded),
        workers=run.started.workers,
        processes=1 + run.resumed,
        limitations=limitations(plan, blocks),
    )


def _arms(plan: Plan, graded: list[Graded]) -> tuple[ArmRow, ...]:
    """Returns a row for each agent under each condition."""

    def of(agent: str, condition: str) -> list[Graded]:
        return [g for g in graded if (g.trial.agent, g.trial.condition_id) == (agent, condition)]

    return tuple(
        _arm(agent.name, condition.id, of(agent.name, condition.id))
        for agent in plan.agents
        for condition in plan.conditions
    )


def _plan(folder: Path) -> Plan:
    try:
        data = (folder / "plan.json").read_bytes()
    except FileNotFoundError as error:
        raise IntegrityError(
            "plan-lost",
            f"{folder.name}: expected the plan.json that the ledger began with, found none",
            hint=f"restore {folder / 'plan.json'} from a copy",
        ) from error
    return Plan.parse(data, where="plan.json")


def _graded(trial: Trial, run: RunRecord, blobs: BlobReader) -> Graded:
    record = run.trial(trial.key)
    attempt = record.graded
    if attempt is None or attempt.ended is None:
        return Graded(trial, record, None, None)
    verdict = Verdict.parse(
        blobs.get(attempt.stages[Stage.GRADE].document_sha256), where=f"verdict of {trial.key}"
    )
    injection = Injection.parse(
        blobs.get(attempt.stages[Stage.INJECT].document_sha256), where=f"injection of {trial.key}"
    )
    named = (verdict.task_id, verdict.condition_id, verdict.agent, verdict.epoch)
    if attempt.ended.verdict_sha256 != verdict.digest_sha256() or named != (
        trial.task_id,
        trial.condition_id,
        trial.agent,
        trial.epoch,
    ):
        raise IntegrityError(
            "verdict-mismatch",
            f"{trial.key}: expected its own verdict, found one of {'/'.join(map(str, named))}",
            hint="restore the results folder from a copy",
        )
    return Graded(trial, record, Told(trial, verdict, _trace(trial.key, attempt, blobs)), injection)


def _trace(key: str, attempt: AttemptRecord, blobs: BlobReader) -> MemoryTrace | None:
    """Reads where the facts went; None for an arm without memory, and where nothing was graded."""
    named = [a for a in attempt.stages[Stage.GRADE].artifacts if a.name == TRACE]
    if not named:
        return None
    trace = MemoryTrace.parse_canonical(blobs.get(named[0].sha256), where=f"memory trace of {key}")
    if trace.trial != key:
        raise IntegrityError(
            "trace-mismatch",
            f"{key}: expected its own memory trace, found that of {trace.trial}",
            hint="restore the results folder from a copy",
        )
    return trace


def _admitted(found: list[Graded]) -> tuple[list[Graded], tuple[Block, ...]]:
    """Marks the trials of inadmissible blocks as dropped, in every arm."""
    blocks = inadmissible_blocks(found)
    gone = {(block.task_id, block.epoch) for block in blocks}
    marked = [replace(i, dropped=(i.trial.task_id, i.trial.epoch) in gone) for i in found]
    return marked, blocks


def inadmissible_blocks(items: list[Graded]) -> tuple[Block, ...]:
    """Returns the task x epoch blocks in which the harness broke its promise to at least one arm."""
    because: dict[tuple[str, int], list[str]] = {}
    for item in items:
        if item.last is not None and item.last.outcome is Outcome.INADMISSIBLE:
            block = because.setdefault((item.trial.task_id, item.trial.epoch), [])
            block.append(f"{item.trial.key}: {item.last.error or 'no text recorded'}")
    return tuple(
        Block(task_id=task_id, epoch=epoch, because=tuple(texts))
        for (task_id, epoch), texts in sorted(because.items())
    )


def _arm(agent: str, condition_id: str, everything: list[Graded]) -> ArmRow:
    items = [item for item in everything if not item.dropped]
    verdicts = [item.verdict for item in items if item.verdict is not None]
    reasons = Counter(v.failure_reason for v in verdicts if v.failure_reason is not None)
    attempts = [attempt for item in everything for attempt in item.record.attempts]
    outcomes = Counter(a.ended.outcome for a in attempts if a.ended)
    return ArmRow(
        agent=agent,
        condition_id=condition_id,
        trials=len(everything),
        dropped=len(everything) - len(items),
        verdicts=len(verdicts),
        resolved=Count(passed=sum(item.resolved for item in items), of=len(verdicts)),
        fail_to_pass=_sum(
            [t for v in verdicts for t in (v.fail_to_pass_capability, v.fail_to_pass_memory)]
        ),
        fail_to_pass_memory=_sum([v.fail_to_pass_memory for v in verdicts]),
        pass_to_pass=_sum([v.pass_to_pass for v in verdicts]),
        memory_tokens_median=median_low([i.injection.tokens for i in items if i.injection] or [0]),
        wall_ms_median=median_low([item.wall_ms for item in items if item.verdict] or [0]),
        failure_counts=_counts({r: n for r, n in reasons.items() if r not in MEMORY_REASONS}),
        memory_failure_counts=_counts({r: n for r, n in reasons.items() if r in MEMORY_REASONS}),
        attempts=len(attempts),
        outcomes=tuple(
            OutcomeCount(outcome=outcome, attempts=outcomes[outcome])
            for outcome in Outcome
            if outcomes[outcome]
        ),
        resources=add_up([a.ended.resources for a in attempts if a.ended and a.ended.resources]),
        spending=arm_spending(item.spent for item in everything if item.spent),
    )


def _sum(tallies: list[Tally]) -> Count:
    return Count(passed=sum(t.passed for t in tallies), of=sum(t.expected for t in tallies))


def _counts(reasons: dict[FailureReason, int]) -> tuple[ReasonCount, ...]:
    return tuple(ReasonCount(reason=reason, count=reasons[reason]) for reason in sorted(reasons))


def _row(item: Graded, charge: Charge | None) -> TrialRow:
    verdict = item.verdict
    last = item.last
    return TrialRow(
        trial=item.trial.key,
        task_id=item.trial.task_id,
        condition_id=item.trial.condition_id,
        agent=item.trial.agent,
        epoch=item.trial.epoch,
        status=_status(item),
        outcome=last.outcome if last else None,
        failure_reason=verdict.failure_reason if verdict else None,
        why=why(verdict, _refused(item), broken=item.told.failure if item.told else None)
        if verdict
        else (last.error if last and last.error else NOT_RUN),
        charge=charge,
        memory_status=item.told.contract if item.told and not item.dropped else None,
        memory_tokens=item.injection.tokens if item.injection else None,
        verdict_sha256=verdict.digest_sha256() if verdict else None,
        attempts=len(item.record.attempts),
        wall_ms=item.wall_ms,
        container_ms=item.container_ms,
        resources=last.resources if last else None,
        spending=item.spent.spending if item.spent else None,
        own_usage=item.spent.own if item.spent else None,
    )


def _refused(item: Graded) -> tuple[CapCount, ...]:
    spent = item.spent.spending if item.spent else None
    return spent.caps_met if spent else ()


def _status(item: Graded) -> Literal["resolved", "unresolved", "dropped", "no_verdict"]:
    if item.dropped:
        return "dropped"
    if item.verdict is None:
        return "no_verdict"
    return "resolved" if item.verdict.resolved else "unresolved"

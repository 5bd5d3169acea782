"""What counts as resolved for an arm, and what failed trials of memory-bearing arms are charged to.

Pure over graded trials. An arm without a memory system is charged with nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from orchestrator.model.attribution import (
    CONTROL_CONDITION,
    ORACLE_CONDITION,
    Charge,
    Failure,
    PathStage,
)
from orchestrator.model.lifecycle import ContractFailure
from orchestrator.model.plan import Trial
from orchestrator.model.report import ChargeCount, MemoryRow
from orchestrator.model.trace import MemoryStatus, MemoryTrace
from orchestrator.model.verdict import Verdict
from orchestrator.scoring.attribution import charge

_STAGES = list(PathStage)
_FAILURES = list(Failure)
_NONE = ("not_memory", "stage_opaque", "undetermined_no_oracle")


@dataclass(frozen=True, slots=True)
class Told:
    """One graded trial that counts: its verdict, and its trace if its arm has memory."""

    trial: Trial
    verdict: Verdict
    trace: MemoryTrace | None

    @property
    def contract(self) -> MemoryStatus | None:
        """How its memory contract was kept; None for an arm without memory."""
        return None if self.trace is None else self.trace.status

    @property
    def failure(self) -> ContractFailure | None:
        """How its memory system broke its contract, if it did."""
        return None if self.trace is None else self.trace.failure

    @property
    def broken(self) -> bool:
        """Whether its memory system broke its contract."""
        return self.failure is not None

    @property
    def resolved(self) -> bool:
        """Whether it counts as resolved for its arm: what a memory did not deliver, it did not win."""
        return self.verdict.resolved and not self.broken


class Cells:
    """What trials count as, by cell, to find what one trial is compared with."""

    def __init__(self, told: Iterable[Told]) -> None:
        self._resolved: dict[tuple[str, str, str, int], bool] = {
            (
                t.trial.condition_id,
                t.trial.task_id,
                t.trial.agent,
                t.trial.epoch,
            ): t.resolved
            for t in told
            # Evidence that was never handed over tells nothing of what an agent does with it.
            if not (t.broken and t.trial.condition_id == ORACLE_CONDITION)
        }

    def oracle(self, trial: Trial) -> bool | None:
        """Whether the oracle arm solves the task: in the same epoch, else in any other; None if unknown."""
        same = self._of(ORACLE_CONDITION, trial)
        if same is not None:
            return same
        others = [
            resolved
            for (condition, task, agent, _), resolved in self._resolved.items()
            if (condition, task, agent) == (ORACLE_CONDITION, trial.task_id, trial.agent)
        ]
        return any(others) if others else None

    def control(self, trial: Trial) -> bool | None:
        """Whether the same cell without memory was resolved; None if it has no verdict."""
        return self._of(CONTROL_CONDITION, trial)

    def _of(self, condition_id: str, trial: Trial) -> bool | None:
        return self._resolved.get((condition_id, trial.task_id, trial.agent, trial.epoch))


def charges_of(told: list[Told]) -> dict[str, Charge]:
    """Returns the charge of every trial that counts as failed for an arm with memory, by trial key."""
    cells = Cells(told)
    return {
        t.trial.key: charge(t.trace, t.verdict, cells.oracle(t.trial))
        for t in told
        if t.trace is not None and not t.resolved
    }


def memory_rows(
    told: list[Told], charges: Mapping[str, Charge], arms: Iterable[tuple[str, str]]
) -> tuple[MemoryRow, ...]:
    """Returns one row for each arm that has memory.

    Args:
        told: graded trials that count.
        charges: of the failed ones.
        arms: agent and condition, in the order of the report.
    """
    cells = Cells(told)
    rows = []
    for agent, condition_id in arms:
        mine = [
            t
            for t in told
            if (t.trial.agent, t.trial.condition_id) == (agent, condition_id)
            and t.contract is not None
        ]
        if mine:
            rows.append(_row(agent, condition_id, mine, charges, cells.control))
    return tuple(rows)


def _row(
    agent: str,
    condition_id: str,
    mine: list[Told],
    charges: Mapping[str, Charge],
    control: Callable[[Trial], bool | None],
) -> MemoryRow:
    status = Counter(t.contract for t in mine)
    pairs = [(t.resolved, control(t.trial)) for t in mine]
    compared = [(own, other) for own, other in pairs if other is not None]
    return MemoryRow(
        agent=agent,
        condition_id=condition_id,
        failed=sum(not t.resolved for t in mine),
        charges=_counted([charges[t.trial.key] for t in mine if t.trial.key in charges]),
        verified=status["verified"],
        contract_failures=status["contract_failure"],
        not_applicable=status["not_applicable"],
        compared=len(compared),
        helped=sum(own and not other for own, other in compared),
        hurt=sum(other and not own for own, other in compared),
    )


def _counted(found: list[Charge]) -> tuple[ChargeCount, ...]:
    """Counts equal charges, in the order of the path."""

    def place(key: tuple[str, PathStage | None, Failure | None]) -> tuple[int, int]:
        to, _, failure = key
        return (0, _FAILURES.index(failure)) if failure else (1, _NONE.index(to))

    counts = Counter((item.to, item.stage, item.failure) for item in found)
    return tuple(
        ChargeCount(to=to, stage=stage, failure=failure, count=counts[to, stage, failure])
        for to, stage, failure in sorted(counts, key=place)
    )

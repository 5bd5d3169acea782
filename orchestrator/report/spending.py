"""The report's figures about models: what each trial, arm and run spent, beside what agents say of themselves.

Pure over accounts, record and blobs. The spend book decides; an agent's own figure is only compared.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from orchestrator.core.errors import IntegrityError
from orchestrator.gateway.accounts import Accounts, add_costs, add_spendings, add_usages
from orchestrator.ledger.blobs import BlobReader
from orchestrator.ledger.history import RunRecord
from orchestrator.model.exchange import Exchange
from orchestrator.model.plan import Plan
from orchestrator.model.record import Stage
from orchestrator.model.spending import (
    ArmSpending,
    ConditionSpending,
    OwnFigures,
    OwnUsage,
    RunSpending,
    Spending,
)
from orchestrator.model.usage import Usage
from orchestrator.model.verdict import Acted


@dataclass(frozen=True, slots=True)
class TrialSpending:
    """A trial's spending over all attempts; own figures and the gateway's for its graded attempt."""

    condition_id: str
    spending: Spending
    own: OwnUsage | None
    gateway: Usage


def trial_spendings(
    plan: Plan, run: RunRecord, blobs: BlobReader, accounts: Accounts | None
) -> dict[str, TrialSpending]:
    """Returns the spending of every trial that asked a model, by its key.

    Raises:
        IntegrityError: the spend book charges a trial that the plan does not have.
    """
    if accounts is None:
        return {}
    spent = accounts.spending
    known = {trial.key: trial for trial in plan.trials}
    foreign = sorted(set(spent) - set(known))
    if foreign:
        raise IntegrityError(
            "accounts-foreign",
            f"expected calls of the plan's trials in the spend book, found some of {foreign[0]!r}",
            hint="restore the run's folder from a copy",
        )
    return {
        key: TrialSpending(
            known[key].condition_id,
            spending,
            *_figures(key, run, blobs, accounts),
        )
        for key, spending in spent.items()
    }


def _figures(
    key: str, run: RunRecord, blobs: BlobReader, accounts: Accounts
) -> tuple[OwnUsage | None, Usage]:
    graded = run.trial(key).graded
    done = graded.stages.get(Stage.ACT) if graded else None
    if graded is None or done is None:
        return None, Usage()
    acted = Acted.parse(blobs.get(done.document_sha256), where=f"act of {key}")
    return acted.own_usage, add_usages(
        body.usage
        for _, body in accounts.by_attempt.get((key, graded.number), ())
        if isinstance(body, Exchange) and body.role == "agent" and body.usage
    )


def arm_spending(trials: Iterable[TrialSpending]) -> ArmSpending | None:
    """Returns the sum over an arm; None if it asked no model."""
    mine = list(trials)
    if not mine:
        return None
    compared = [(item.own.usage, item.gateway) for item in mine if item.own is not None]
    return ArmSpending(
        total=add_spendings(item.spending for item in mine),
        dearest_trial_usd_micros=max(item.spending.cost.usd_micros for item in mine),
        own=OwnFigures(
            trials=len(compared),
            differing=sum(_differ(own, gateway) for own, gateway in compared),
            own=add_usages(own for own, _ in compared),
            gateway=add_usages(gateway for _, gateway in compared),
        )
        if compared
        else None,
    )


def _differ(own: Usage, gateway: Usage) -> bool:
    """Agents split input into classes each in its own way, so sums are compared."""
    return (own.all_input, own.output) != (gateway.all_input, gateway.output)


def run_spending(
    plan: Plan, trials: dict[str, TrialSpending], accounts: Accounts | None
) -> RunSpending | None:
    """Returns the sums over a run against its caps; None if no gateway ran."""
    if accounts is None or plan.gateway is None:
        return None
    return RunSpending(
        model=plan.gateway.model,
        prices_dated=plan.gateway.prices.dated,
        caps=plan.gateway.caps,
        total=add_spendings(item.spending for item in trials.values()),
        conditions=tuple(
            ConditionSpending(
                condition_id=condition.id,
                cost=add_costs(
                    item.spending.cost
                    for item in trials.values()
                    if item.condition_id == condition.id
                ),
            )
            for condition in plan.conditions
        ),
        torn_bytes=accounts.torn_bytes,
    )

"""What a report says about models, as text: calls, tokens and cost by arm, caps, and agents' own figures."""

from __future__ import annotations

from orchestrator.core.printable import printable
from orchestrator.core.words import counted
from orchestrator.model.report import ArmRow, RunReport
from orchestrator.model.spending import OwnFigures, RunSpending, Spending


def render_spending(report: RunReport) -> str:
    """Returns a line for each arm that asked a model, the caps, and what does not agree; else nothing."""
    spending = report.spending
    if spending is None:
        return ""
    lines = [_arm(arm) for arm in report.arms if arm.spending is not None]
    lines += [
        _conditions(spending),
        f"  run: {_money(spending.total)}; cap {usd(spending.caps.per_run_usd_micros)}",
    ]
    lines += _remarks(report, spending)
    title = f"Model calls ({printable(spending.model)}, prices of {spending.prices_dated}; the spend book decides):"
    return "\n".join([title, *(line for line in lines if line)])


def _arm(arm: ArmRow) -> str:
    if arm.spending is None:
        return ""
    dearest = usd(arm.spending.dearest_trial_usd_micros)
    told = f"  {arm.agent} under {arm.condition_id}: {_tokens(arm.spending.total)}, {_money(arm.spending.total)}"
    return f"{told}; dearest trial {dearest}"


def _tokens(spending: Spending) -> str:
    usage = spending.usage
    cached = f" ({usage.cache_read} from cache)" if usage.cache_read else ""
    return f"{counted(spending.calls, 'call')}, {usage.all_input} tokens in{cached}, {usage.output} out"


def _money(spending: Spending) -> str:
    cost = spending.cost
    uncached = cost.uncached_usd_micros
    return usd(cost.usd_micros) + (
        f" ({usd(uncached)} uncached)" if uncached != cost.usd_micros else ""
    )


def usd(usd_micros: int) -> str:
    """Returns an amount in dollars with all six places that it has."""
    return f"{usd_micros // 1_000_000}.{usd_micros % 1_000_000:06d} USD"


def _conditions(spending: RunSpending) -> str:
    dearest = max(spending.conditions, key=lambda part: part.cost.usd_micros)
    caps = spending.caps
    return (
        f"  caps, equal in every arm: {usd(caps.per_call_usd_micros)} a call, {usd(caps.per_trial_usd_micros)} a trial, "
        f"{usd(caps.per_condition_usd_micros)} a condition (dearest: {dearest.condition_id} with {usd(dearest.cost.usd_micros)})"
    )


def _remarks(report: RunReport, spending: RunSpending) -> list[str]:
    total = spending.total
    lines = [
        f"  {counted(met.calls, 'call')} refused by the cap per {met.cap}" for met in total.caps_met
    ]
    bounded = sum(role.bounded for role in total.roles)
    if bounded:
        lines.append(
            f"  {counted(bounded, 'call')} charged at the bound: no usage was reported, or the settlement was lost"
        )
    if total.unrecorded:
        lines.append(
            f"  {counted(total.unrecorded, 'call')} in the spend book alone: the gateway died before writing the exchange down"
        )
    lines += [
        f"  {arm.agent} under {arm.condition_id}: {_own(arm.spending.own)}"
        for arm in report.arms
        if arm.spending is not None and arm.spending.own is not None
    ]
    return lines


def _own(figures: OwnFigures) -> str:
    if not figures.differing:
        return f"the agent's own figures agree in {counted(figures.trials, 'trial')}"
    return (
        f"the agent's own figures differ in {figures.differing} of {counted(figures.trials, 'trial')}: it says "
        f"{figures.own.all_input} tokens in and {figures.own.output} out, the gateway saw "
        f"{figures.gateway.all_input} and {figures.gateway.output}"
    )

"""Drafts approvals and says in plain words what a signature under one would allow.

Pure, but for the random nonce. Signing is `trust/envelope.py`, judging is the gate.
"""

from __future__ import annotations

import secrets
from decimal import Decimal, InvalidOperation

from orchestrator.core.clock import utc_text_of
from orchestrator.core.errors import ApprovalRefused, UsageError
from orchestrator.core.words import counted
from orchestrator.model.approval import (
    MAX_USD_MICROS,
    MAX_WINDOW_S,
    LocalApproval,
    OfficialApproval,
    SmokeApproval,
    Window,
)
from orchestrator.model.exchange import Role
from orchestrator.model.gateway import LivePin
from orchestrator.model.plan import Plan

HOUR_S = 3600
MICROS = 1_000_000


def usd_micros(text: str, *, option: str) -> int:
    """Reads an amount of dollars as whole micro-USD.

    Raises:
        UsageError: not a plain decimal above zero with at most six places, or above a million dollars.
    """
    try:
        amount = Decimal(text) * MICROS if len(text) <= 20 else Decimal(0)
    except InvalidOperation:
        amount = Decimal(0)
    # Two points are none of Decimal's, so all may go.
    bare = text.replace(".", "")
    plain = bare.isascii() and bare.isdigit()
    if not plain or amount != amount.to_integral_value() or not 1 <= amount <= MAX_USD_MICROS:
        raise UsageError(
            "amount-invalid",
            f"expected {option} with dollars above 0 and at most {MAX_USD_MICROS // MICROS}, such as 5 or 2.50, found {text[:40]!r}",
            hint=f"write it like {option} 5",
        )
    return int(amount)


def usd(micros: int) -> str:
    """Returns micro-USD as dollars with two places or as many as it takes."""
    whole, rest = divmod(micros, MICROS)
    digits = f"{rest:06d}".rstrip("0")
    return f"{whole:,}.{digits:0<2} USD"


def window_of(now_s: int, hours: int) -> Window:
    """Returns a window that begins now.

    Raises:
        UsageError: not between one hour and 14 days.
    """
    if not 1 <= hours <= MAX_WINDOW_S // HOUR_S:
        raise UsageError(
            "window-too-long",
            f"expected --hours between 1 and {MAX_WINDOW_S // HOUR_S}, found {hours}",
            hint="choose the shortest window in which the run can end",
        )
    return Window(not_before_s=now_s, expires_s=now_s + hours * HOUR_S)


def live_pin(plan: Plan) -> LivePin:
    """Returns the live part of a plan.

    Raises:
        ApprovalRefused: the plan calls no provider; it needs no approval.
    """
    if isinstance(plan.gateway, LivePin):
        return plan.gateway
    raise ApprovalRefused(
        "plan-not-live",
        "expected a plan whose model is live, found one that calls no provider and needs no approval",
        hint="run it without --live, or plan with --agent chat --model MODEL --prices FILE --max-usd N",
    )


def calling_roles(plan: Plan) -> tuple[Role, ...]:
    """Returns which roles of a plan's trials may call its model: the agent, and memory where an arm has any."""
    remembers = any(condition.adapter != "none" for condition in plan.conditions)
    return ("agent", "memory") if remembers else ("agent",)


def draft_local(
    plan: Plan, *, root_sha256: str, max_usd_micros: int, window: Window
) -> LocalApproval:
    """Drafts the operator's approval of a plan.

    Raises:
        ApprovalRefused: the plan is not live, not of phase local, or may spend more than the cap.
    """
    pin = live_pin(plan)
    if plan.phase != "local":
        raise ApprovalRefused(
            "phase-not-local",
            f"expected a plan of phase local, found phase {plan.phase}",
            hint="smoke and official need several approvers: `memtrial approve propose`",
        )
    if pin.caps.per_run_usd_micros > max_usd_micros:
        raise ApprovalRefused(
            "cap-above-approval",
            f"expected a plan that may spend at most {usd(max_usd_micros)}, found one that may spend {usd(pin.caps.per_run_usd_micros)}",
            hint="approve the plan's own cap, or plan again with a smaller --max-usd",
        )
    sha256 = plan.digest_sha256()
    return LocalApproval(
        approval_id=f"local-{sha256[:12]}",
        plan_sha256=sha256,
        root_sha256=root_sha256,
        max_usd_micros=max_usd_micros,
        upstreams=(pin.upstream,),
        nonce=secrets.token_hex(32),
        window=window,
    )


def in_plain_words(plan: Plan, *, max_usd_micros: int, window: Window) -> tuple[str, ...]:
    """Returns what a signature would allow, a line each, for the person who is to sign."""
    pin = live_pin(plan)
    effort = {a.reasoning_effort for a in plan.agents if a.reasoning_effort}
    price = pin.prices.find(pin.model)
    prices = (
        f", {usd(price.input)} in and {usd(price.output)} out for a million tokens" if price else ""
    )
    return (
        f"trials    {len(plan.trials)} ({_sizes(plan)}), each at most {plan.retry.max_attempts} times",
        f"arms      {', '.join(c.id for c in plan.conditions)}",
        f"agents    {', '.join(a.name for a in plan.agents)}",
        f"model     {pin.model}{f', effort {min(effort)}' if effort else ''}{prices}",
        f"calls to  {pin.upstream.origin} ({pin.upstream.provider})",
        f"spending  at most {usd(min(max_usd_micros, pin.caps.per_run_usd_micros))} in all, {usd(pin.caps.per_trial_usd_micros)} a trial",
        f"window    {utc_text_of(window.not_before_s)} to {utc_text_of(window.expires_s)}",
        f"phase     {plan.phase}: {pin.standing}"
        + ("; no claim may rest on it" if pin.standing == "directional" else ""),
        f"plan      sha256 {plan.digest_sha256()}",
    )


def approval_in_words(approval: OfficialApproval | SmokeApproval, plan: Plan) -> tuple[str, ...]:
    """Returns all that an approval allows, a line each, for those who are to sign it.

    Args:
        approval: what is signed.
        plan: the plan that it names by digest; arms, tasks and shares are in no other document.
    """
    caps, window, runner, root = approval.caps, approval.window, approval.runner, approval.root
    pin, pricing, on = live_pin(plan), approval.pricing, approval.supervisor
    effort = f", effort {runner.reasoning_effort}" if runner.reasoning_effort else ""
    prices = (pricing.input_usd_micros_per_million, pricing.output_usd_micros_per_million)
    return (
        f"one run   phase {approval.phase}, namespace {approval.namespace}, {counted(approval.epochs, 'epoch')} of the {approval.task_set} set: {pin.standing}",
        f"trials    {len(plan.trials)} ({_sizes(plan)}), each at most {plan.retry.max_attempts} times",
        f"tasks     {', '.join(task.digests.id for task in plan.tasks)}",
        f"arms      {', '.join(c.id for c in plan.conditions)}",
        f"agent     {runner.runner}, at most {caps.max_agent_calls:,} times",
        f"model     {runner.model}{effort}, at most {caps.max_provider_calls:,} calls by {' and '.join(approval.roles)}",
        f"prices    {usd(prices[0])} in and {usd(prices[1])} out for a million tokens, of {pricing.dated}",
        f"tokens    at most {caps.max_input_tokens:,} in and {caps.max_output_tokens:,} out",
        f"calls to  {runner.upstream.origin} ({runner.upstream.provider})",
        f"spending  at most {usd(caps.max_cost_usd_micros)} in all, {usd(pin.caps.per_trial_usd_micros)} a trial",
        f"window    {utc_text_of(window.not_before_s)} to {utc_text_of(window.expires_s)}",
        f"on        {on.identity}, uid {on.uid}, key {on.keyid[:16]}, manifest {on.manifest_sha256[:16]}",
        f"source    {approval.repository} {approval.default_branch}, after commit {approval.approved_commit}",
        f"root      version {root.version}, sha256 {root.sha256}",
        f"plan      sha256 {approval.plan_sha256}",
    )


def _sizes(plan: Plan) -> str:
    return " x ".join(
        (
            counted(len(plan.tasks), "task"),
            counted(len(plan.conditions), "arm"),
            counted(len(plan.agents), "agent"),
            counted(plan.epochs, "epoch"),
        )
    )

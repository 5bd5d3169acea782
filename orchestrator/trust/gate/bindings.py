"""Steps 10, 11 and 14: the plan and its inputs, the time, and what may be spent.

Step 10 is the first that opens fixtures; by then the approval is authentic.
"""

from __future__ import annotations

from collections.abc import Iterator

from orchestrator.core.canonical import sha256_hex
from orchestrator.core.clock import utc_text_of
from orchestrator.core.errors import DocumentError, MemtrialError
from orchestrator.model.approval import OfficialApproval
from orchestrator.model.gateway import LivePin
from orchestrator.model.plan import Plan
from orchestrator.trust.approvals import calling_roles, live_pin
from orchestrator.trust.gate.asked import Governed, State, known, refuse

Pair = tuple[str, object, object]


def check_plan(state: State) -> None:
    """Step 10."""
    approval = state.approved()
    found = sha256_hex(state.asked.plan_data)
    state.digests["plan"] = found
    if found != approval.plan_sha256:
        raise refuse("plan-not-the-approved-one", approval.plan_sha256[:16], found[:16])
    try:
        plan = Plan.parse_canonical(state.asked.plan_data, where="plan")
    except DocumentError as error:
        raise refuse("plan-invalid", "a plan in canonical bytes", error.message) from error
    state.plan = plan
    kind = known(state.roles).document.kind
    _same("plan-differs", _of_plan(approval, plan, kind))
    try:
        state.asked.rebuild(plan)
    except MemtrialError as error:
        raise refuse(
            "plan-does-not-fit", "the plan that its request gives here", error.message
        ) from error
    observed = state.asked.observe(plan)
    _same(
        "input-not-the-approved-one",
        (
            *(
                (name, getattr(approval.inputs, name), getattr(observed.inputs, name))
                for name in type(approval.inputs).model_fields
            ),
            ("runner", approval.runner.executable_sha256, observed.runner_sha256),
        ),
    )


def paid_pin(plan: Plan) -> LivePin:
    """Returns the live part of a plan whose results count; refuses one that only diagnoses, too."""
    if plan.diagnostic:
        raise refuse("plan-not-live", "a plan with a real model", "one that only diagnoses")
    return live_pin(plan)


def _of_plan(approval: Governed, plan: Plan, kind: str) -> Iterator[Pair]:
    """Yields what approval and plan must say alike: name, approved, planned. `kind` is the roles' own."""
    pin = paid_pin(plan)
    yield "phase", approval.phase, plan.phase
    yield "namespace", approval.namespace, plan.namespace
    yield "task set", approval.task_set, plan.task_set
    yield "epochs", approval.epochs, plan.epochs
    yield "changed source", False, plan.source_dirty
    yield "agents", (approval.runner.runner,), tuple(agent.name for agent in plan.agents)
    yield "program", approval.runner.executable_sha256, plan.agents[0].program_sha256
    yield "roles that call a model", approval.roles, calling_roles(plan)
    yield "model", approval.runner.model, pin.model
    yield "upstream", approval.runner.upstream, pin.upstream
    yield "effort", approval.runner.reasoning_effort, plan.agents[0].reasoning_effort
    images = {image.id for task in plan.tasks for image in (task.agent_image, task.verifier_image)}
    yield "images", approval.inputs.images, tuple(sorted(images))
    if kind == "organisation" and isinstance(approval, OfficialApproval):
        loopback_wanted, expected = False, "a provider over TLS"
    elif kind == "rehearsal":
        loopback_wanted, expected = True, "a fake of a provider on this machine"
    else:
        return
    if pin.upstream.is_loopback is not loopback_wanted:
        raise refuse("upstream-not-a-provider", expected, pin.upstream.origin)


def _same(reference: str, pairs: Iterator[Pair] | tuple[Pair, ...]) -> None:
    for name, expected, found in pairs:
        if expected != found or type(expected) is not type(found):
            raise refuse(reference, f"{name} {_short(expected)} as approved", _short(found))


def _short(value: object) -> str:
    return str(value)[:120]


def check_time(state: State) -> None:
    """Step 11: now is inside the window, and not before anything that has already happened."""
    approval, now_s = state.approved(), state.asked.now_s
    committed_s = known(state.repository).committed_s(state.head)
    if now_s < committed_s:
        raise refuse(
            "clock-set-back",
            f"a time after HEAD was made, {utc_text_of(committed_s)}",
            utc_text_of(now_s),
            hint="set this machine's clock right",
        )
    if now_s < approval.window.not_before_s:
        raise refuse(
            "approval-not-yet-valid",
            f"a time from {utc_text_of(approval.window.not_before_s)} on",
            f"{utc_text_of(now_s)}: the approval does not hold yet",
            hint="wait until then",
        )
    check_not_expired(approval, now_s)


def check_not_expired(approval: Governed, now_s: int) -> None:
    """Refuses an approval whose window has ended.

    Raises:
        ApprovalRefused: it has.
    """
    if now_s >= approval.window.expires_s:
        raise refuse(
            "approval-expired",
            f"a time before {utc_text_of(approval.window.expires_s)}",
            f"{utc_text_of(now_s)}: the approval has expired",
            hint="propose, sign and publish another: `memtrial approve propose`",
        )


def check_caps(state: State) -> None:
    """Step 14: caps and prices are the plan's own, to the last unit."""
    approval, plan = state.approved(), known(state.plan)
    pin = paid_pin(plan)
    price = pin.prices.find(pin.model)
    caps, pricing = approval.caps, approval.pricing
    _same(
        "caps-differ",
        (
            (
                "agent calls (trials x attempts)",
                caps.max_agent_calls,
                len(plan.trials) * plan.retry.max_attempts,
            ),
            ("cost in micro-USD", caps.max_cost_usd_micros, pin.caps.per_run_usd_micros),
            ("price table", pricing.table_sha256, pin.prices.digest_sha256()),
            ("day of the prices", pricing.dated, pin.prices.dated),
            ("input price", pricing.input_usd_micros_per_million, price.input if price else None),
            (
                "output price",
                pricing.output_usd_micros_per_million,
                price.output if price else None,
            ),
        ),
    )
    if caps.max_provider_calls < caps.max_agent_calls:
        raise refuse(
            "caps-differ",
            f"at least a provider call for each of {caps.max_agent_calls} agent calls",
            f"{caps.max_provider_calls}",
        )

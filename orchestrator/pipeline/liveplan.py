"""The live part of a plan: upstream, prices and caps, all from the request and equal in every arm.

Pure. The caps follow from one figure, the most that the run may spend, so that a changed cap shows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from orchestrator.agents.registry import speech_of
from orchestrator.agents.speech import Speech
from orchestrator.core.errors import UsageError
from orchestrator.model.approval import OFFICIAL_NAMESPACE, SMOKE_NAMESPACE, Upstream
from orchestrator.model.gateway import LivePin, standing_of
from orchestrator.model.usage import PROVIDER_OF, Caps
from orchestrator.pipeline.options import PlanRequest

# A trial may use so many times its even share: long trials are not cut before short ones are done.
TRIAL_SHARES = 4


def check_live(request: PlanRequest) -> None:
    """Refuses what no agent of the request can do.

    Raises:
        UsageError: a phase that spends money without a model, a model without one who asks it, agents
            that ask none beside those that do, or what no approval of the phase allows.
    """
    if request.live is None:
        if request.phase != "local":
            raise UsageError(
                "phase-needs-live-agent",
                f"expected phase local for scripted agents, found {request.phase}: phases smoke and official spend money and need signed approval",
                hint="use --phase local",
            )
        if request.model is not None or request.reasoning_effort is not None:
            raise UsageError(
                "agent-has-no-model",
                "expected no --model and no --reasoning-effort: scripted agents call no model",
                hint="leave both out",
            )
        return
    silent = [name for name in request.agents if speech_of(name) is None]
    if silent or request.model is None:
        raise UsageError(
            "agent-has-no-model",
            f"expected only agents that ask a model in a live plan, found {', '.join(silent) or 'no --model'}",
            hint="use --agent chat --model MODEL",
        )
    if any(level == "run" for level, _ in request.caps):
        raise UsageError(
            "cap-of-run-twice",
            "expected the cap of the whole live run by --max-usd alone, found --cap run too",
            hint="leave --cap run out",
        )
    if request.live.prices.find(request.model) is None:
        raise UsageError(
            "model-has-no-price",
            f"expected a price of {request.model} in the table dated {request.live.prices.dated}, found none",
            hint="add it to the file of --prices, with the day on which you read it",
        )
    _check_phase(request)


def _check_phase(request: PlanRequest) -> None:
    """Refuses what an approval of the phase could not name (model/approval.py)."""
    if request.phase == "local":
        return
    smoke = request.phase == "smoke"
    agents = (*request.agents, *request.commands)
    named = (
        re.fullmatch(SMOKE_NAMESPACE, request.namespace)
        if smoke
        else request.namespace == OFFICIAL_NAMESPACE
    )
    for option, fits, expected, found in (
        ("namespace", named, "smoke-NAME" if smoke else OFFICIAL_NAMESPACE, request.namespace),
        (
            "task-set",
            request.task_set == ("smoke" if smoke else "full"),
            "smoke" if smoke else "full",
            request.task_set,
        ),
        ("epochs", request.epochs == 1 or not smoke, "1", str(request.epochs)),
        ("agent", len(agents) == 1, "given once", f"{len(agents)} agents"),
    ):
        if not fits:
            raise UsageError(
                "plan-not-of-its-phase",
                f"expected --{option} {expected} in phase {request.phase}, which is what people can approve, found {found}",
                hint=f"plan again with --{option} {expected}"
                if option != "agent"
                else "make a plan of each agent",
            )


def check_speeches(request: PlanRequest, speeches: Mapping[str, Speech]) -> None:
    """Refuses agents whose calls the model of the request could not answer.

    Args:
        request: what is asked for.
        speeches: how a model speaks to each agent that asks one, by the agent's name.

    Raises:
        UsageError: two agents that are spoken to in different ways under one scripted model id; or a real
            model whose provider does not speak an agent's wire format, or has no price for it.
    """
    if request.live is None:
        _check_one_tongue(speeches)
        return
    price = request.live.prices.find(request.model or "")
    for name, speech in speeches.items():
        if PROVIDER_OF[speech.api] != request.live.provider:
            raise UsageError(
                "agent-of-another-provider",
                f"expected agents that ask {request.live.provider}, found that {name} speaks {speech.api}, which goes to {PROVIDER_OF[speech.api]}",
                hint=f"use --provider {PROVIDER_OF[speech.api]} with a model of it, or another agent",
            )
        if price is not None and speech.api not in price.apis:
            raise UsageError(
                "model-has-no-price",
                f"expected a price of {price.model} for {speech.api}, which {name} speaks, found one for {', '.join(price.apis)}",
                hint="add the wire format to the file of --prices if the model speaks it, or use another agent",
            )


def _check_one_tongue(speeches: Mapping[str, Speech]) -> None:
    first: dict[str, str] = {}
    for name, speech in speeches.items():
        other = first.setdefault(speech.model, name)
        # How long its answers may be is no part of how an agent is spoken to.
        if replace(speeches[other], max_output_tokens=speech.max_output_tokens) != speech:
            raise UsageError(
                "model-id-taken",
                f"expected one way to speak to agents under the scripted model {speech.model}, found that {other} and {name} differ in wire format, tool or farewell",
                hint="give the described agent a model id of its own, or plan the two apart",
            )


def live_pin(request: PlanRequest, *, tasks: int, conditions: int) -> LivePin:
    """Returns the live part of a plan.

    Args:
        request: with a live part that `check_live` let through.
        tasks: how many tasks the plan has.
        conditions: how many arms.

    Raises:
        UsageError: the cap is less than a micro-dollar an arm and trial.
    """
    live, model = request.live, request.model
    if live is None or model is None:
        raise UsageError(
            "plan-not-live", "expected a live request, found none", hint="add --model MODEL"
        )
    upstream = Upstream(provider=live.provider, origin=live.origin)
    return LivePin(
        standing=standing_of(request.phase, upstream),
        model=model,
        upstream=upstream,
        prices=live.prices,
        caps=even_caps(
            live.max_usd_micros,
            conditions=conditions,
            trials_each=tasks * request.epochs * len(agents_of(request)),
        ),
    )


def agents_of(request: PlanRequest) -> tuple[str, ...]:
    """Returns the names of the agents that a request comes to, each once."""
    described = (command.agent for command in request.commands)
    return (*dict.fromkeys(request.agents), *described)


def even_caps(run_usd_micros: int, *, conditions: int, trials_each: int) -> Caps:
    """Divides what a run may spend: evenly over the arms, with some slack for a trial.

    Raises:
        UsageError: nothing would be left for a trial.
    """
    condition = run_usd_micros // conditions
    trial = min(condition, TRIAL_SHARES * condition // trials_each)
    if trial < 1:
        raise UsageError(
            "cap-too-small",
            f"expected --max-usd to leave something for each of {conditions * trials_each} trials, found {run_usd_micros} micro-USD",
            hint="raise --max-usd",
        )
    return Caps(
        per_call_usd_micros=trial,
        per_trial_usd_micros=trial,
        per_condition_usd_micros=condition,
        per_run_usd_micros=run_usd_micros,
    )

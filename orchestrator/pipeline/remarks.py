"""What a person should know of a plan before it runs, although nothing in it is wrong: caps without room, arms left out.

Pure over plan and registry; decides nothing.
"""

from __future__ import annotations

from orchestrator.agents.registry import speeches_of
from orchestrator.gateway.meter import least_usd_micros
from orchestrator.model.condition import ConditionRegistry
from orchestrator.model.plan import Plan
from orchestrator.pipeline.options import LEVELS
from orchestrator.pipeline.traffic import cap_of


def caps_without_room(plan: Plan) -> tuple[str, ...]:
    """Returns, in words, the caps under which not even the smallest call of an agent fits."""
    if plan.gateway is None:
        return ()
    found = []
    for name, speech in speeches_of(plan.agents).items():
        price = plan.gateway.prices.find(plan.agent(name).model or "")
        if price is None:
            continue
        least = least_usd_micros(price, speech.max_output_tokens)
        level = next((n for n in LEVELS if cap_of(plan.gateway.caps, n) < least), None)
        if level is not None:
            found.append(
                f"no call of {name} fits under the cap per {level}, {cap_of(plan.gateway.caps, level)} micro-USD: the smallest reserves {least}, because its answer may be as long as {speech.max_output_tokens or price.max_output_tokens} tokens"
            )
    return tuple(found)


def arms_left_out(plan: Plan, registry: ConditionRegistry) -> tuple[str, ...]:
    """Returns, in words, the arms of a whole registry that a plan of all arms lacks, and why."""
    held = {condition.id for condition in plan.conditions}
    return tuple(
        f"{condition.id} is left out: not every agent of the plan has the channel {condition.delivery}"
        for condition in registry.conditions
        if condition.id not in held
    )

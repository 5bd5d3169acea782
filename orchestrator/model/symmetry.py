"""What every arm of a task must have in common, stated arm by arm, so that a difference can be seen.

Pure. An arm may differ from another in its memory and in nothing else; a plan in which it does is
refused, by name of what differs.
"""

from __future__ import annotations

from pydantic import BaseModel

from orchestrator.core.canonical import digest_sha256
from orchestrator.model.base import Closed, Sha256, Slug
from orchestrator.model.condition import Condition
from orchestrator.model.lifecycle import MAX_K

PARTS = ("limits", "image", "agent", "caps", "environment")


class ArmSetting(Closed):
    """The surroundings of one condition on one task, each part by the digest of its RFC 8785 bytes."""

    task_id: Slug
    condition_id: Slug
    limits_sha256: Sha256
    image_sha256: Sha256
    agent_sha256: Sha256
    caps_sha256: Sha256
    environment_sha256: Sha256


def arm_setting(
    task_id: str,
    condition_id: str,
    *,
    limits: BaseModel,
    images: tuple[BaseModel, ...],
    agents: tuple[BaseModel, ...],
    caps: dict[str, object],
    environment: dict[str, object],
) -> ArmSetting:
    """Returns the setting of an arm from what it really gets.

    Args:
        task_id: the task.
        condition_id: the arm.
        limits: of the agent's container.
        images: the agent's and the verifier's, then those of agents with a layer of their own.
        agents: every agent of the plan, with program and model.
        caps: what bounds attempts and spending.
        environment: what a container of the arm is made with, apart from its limits.
    """
    return ArmSetting(
        task_id=task_id,
        condition_id=condition_id,
        limits_sha256=digest_sha256(limits.model_dump(mode="json")),
        image_sha256=digest_sha256([image.model_dump(mode="json") for image in images]),
        agent_sha256=digest_sha256([agent.model_dump(mode="json") for agent in agents]),
        caps_sha256=digest_sha256(caps),
        environment_sha256=digest_sha256(environment),
    )


def inequality(arms: tuple[ArmSetting, ...]) -> str | None:
    """Returns the first part in which two arms of one task differ, in words, or None."""
    first: dict[str, ArmSetting] = {}
    for arm in arms:
        other = first.setdefault(arm.task_id, arm)
        for part in PARTS:
            mine, theirs = (getattr(item, f"{part}_sha256") for item in (arm, other))
            if mine != theirs:
                return f"task {arm.task_id}: expected equal {part} in every arm, found {mine[:12]} under {arm.condition_id} and {theirs[:12]} under {other.condition_id}"
    return None


def unequal_budgets(conditions: tuple[Condition, ...]) -> str | None:
    """Returns how the token budgets of arms that are compared differ, in words, or None.

    A diagnostic arm may have another budget: it shows a bound, and no claim rests on it.
    """
    budgets = {c.id: c.budget.max_tokens for c in conditions if c.budget and c.role != "diagnostic"}
    if len(set(budgets.values())) <= 1:
        return None
    listed = ", ".join(f"{tokens} under {name}" for name, tokens in budgets.items())
    return f"expected one token budget for all primary and control arms with memory, found {listed}"


def asked_k(condition: Condition) -> int | None:
    """Returns how many items an arm may be given; None for one of ours that does not search.

    Who of a program or an entry point sets no `retrieve_k` is asked for as many as there may be.
    """
    if condition.budget is None or condition.adapter_kind == "builtin":
        return condition.retrieve_k
    return condition.retrieve_k or MAX_K


def outside_parity(conditions: tuple[Condition, ...]) -> tuple[str, ...]:
    """Returns each diagnostic arm whose allowance differs from that of the compared arms, with the figures."""
    compared = [c for c in conditions if c.budget and c.role != "diagnostic"]
    tokens = {c.budget.max_tokens for c in compared if c.budget}
    items = {k for c in compared if (k := asked_k(c))}
    found = []
    for arm in conditions:
        if arm.role != "diagnostic" or arm.budget is None:
            continue
        mine = ((arm.budget.max_tokens, "tokens", tokens), (asked_k(arm), "items", items))
        differs = [
            f"{figure} {unit}, not {' or '.join(map(str, sorted(theirs)))}"
            for figure, unit, theirs in mine
            if figure and theirs and figure not in theirs
        ]
        if differs:
            found.append(f"{arm.id} ({'; '.join(differs)})")
    return tuple(found)

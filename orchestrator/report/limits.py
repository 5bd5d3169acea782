"""What a run does not show, in words, from its plan and its dropped blocks. Pure."""

from __future__ import annotations

from orchestrator.core.words import counted
from orchestrator.model.plan import Plan
from orchestrator.model.report import Block
from orchestrator.model.symmetry import outside_parity
from orchestrator.report.maintenance import maintenance_limits


def limitations(plan: Plan, blocks: tuple[Block, ...] = ()) -> tuple[str, ...]:
    """Returns what a run of this plan does not show, in words."""
    said = []
    if blocks:
        share = 100 * len(blocks) / (len(plan.tasks) * plan.epochs)
        said.append(
            f"{len(blocks)} of {len(plan.tasks) * plan.epochs} task x epoch blocks ({share:.0f} %) were inadmissible and are left out of every arm's rates: the harness broke its promise in them."
        )
    if plan.diagnostic:
        said.append(
            "Scripted agents know the answer: this run shows that the wiring works, not that memory helps a model."
        )
    if plan.standing == "directional":
        said.append(
            "Directional evidence: the run is not of phase official, so no claim can pass on it."
        )
    if plan.standing == "rehearsal":
        said.append(
            "Rehearsal: the provider was a fake on this machine and the approvers those of a test, so no claim can ever pass on it."
        )
    if any(pin.curator_kind == "synthetic" for pin in plan.curated):
        said.append(
            "The curated files are synthetic: no person kept them, so no maintenance time is known and no claim can rest on them."
        )
    apart = outside_parity(plan.conditions)
    if apart:
        said.append(
            f"Not in parity with the compared arms, because diagnostic: {', '.join(apart)}. What such an arm delivers otherwise may be its allowance and not its memory."
        )
    said += maintenance_limits(plan)
    if plan.epochs == 1:
        said.append("One epoch: nothing is known about run-to-run noise.")
    said.append(
        f"{counted(len(plan.tasks), 'task')}: too few for any claim about memory in general; tasks are not calibrated on live agents."
    )
    return tuple(said)

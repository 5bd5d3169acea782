"""What a recorded document says against the harness or the agent, and how the attempt then ends.

Pure over documents of the record: the pipeline raises what verification derives again from the same bytes.
"""

from __future__ import annotations

from orchestrator.core.errors import (
    BudgetExhausted,
    EnvironmentMissing,
    Inadmissible,
    IntegrityError,
    Misconduct,
)
from orchestrator.model.exchange import Exchange
from orchestrator.model.gateway import Traffic
from orchestrator.model.isolation import Finding, Isolation, Screening
from orchestrator.model.proof import InjectionProof
from orchestrator.model.record import Prepared
from orchestrator.model.toolcalls import ToolLog
from orchestrator.model.verdict import Ended

# What a provider answers for reasons of its own; other errors are about the request, so the agent's affair.
NOT_THE_AGENTS = frozenset({401, 402, 403, 404, 408, 409, 425, 429})
LOST = frozenset({"not_permitted", "upstream_cut", "upstream_unreachable"})


def require_runtime(planned: str | None, prepared: Prepared) -> None:
    """Ends the attempt unless the planned runtime ran the agent's container.

    Raises:
        Inadmissible: the engine took another one.
    """
    runtime = prepared.runtime
    if planned not in {None, runtime}:
        raise Inadmissible(
            "runtime-not-as-planned",
            f"expected container runtime {planned}, found that the engine took {runtime}",
            hint="mend the engine, then `memtrial resume`",
            evidence=(f"planned: {planned}", f"engine: {runtime}"),
        )


def require_isolated(proof: Isolation) -> None:
    """Ends the attempt unless the proof holds.

    Raises:
        Inadmissible: the container is not as declared, or a literal is in sight of the agent.
    """
    if proof.findings:
        raise Inadmissible(
            "leak-before-act",
            f"expected nothing of answer key, other trials and host in sight of the agent, found {_said(proof.findings[0])}",
            hint="see the isolate document of this attempt; then look for what put it there",
            evidence=tuple(_said(finding) for finding in proof.findings),
        )
    if proof.differences:
        lines = tuple(f"{d.what} {d.how}: {d.subject}" for d in proof.differences)
        raise Inadmissible(
            "container-not-as-declared",
            f"condition {proof.condition_id}: expected the declared inventory, found {'; '.join(lines[:4])}",
            hint="see the isolate document of this attempt; run `memtrial doctor`",
            evidence=lines,
        )


def _said(finding: Finding) -> str:
    return (
        f"{finding.literal_kind} literal {finding.literal_sha256[:16]} in {finding.place} "
        f"({finding.encoding}, byte {finding.offset})"
    )


def require_clean(screening: Screening) -> None:
    """Ends the attempt unless nothing leaked.

    Raises:
        Inadmissible: the harness itself gave the agent what was found.
        Misconduct: the agent showed what it had no honest way to.
    """
    if not screening.findings:
        return
    evidence = tuple(_said(finding) for finding in screening.findings)
    if any(finding.caused_by == "harness" for finding in screening.findings):
        raise Inadmissible(
            "leak-by-harness",
            f"expected a trial without leaks, found {evidence[0]}, which the harness had given the agent",
            hint="see the screen document of this attempt",
            evidence=evidence,
        )
    raise Misconduct(
        "agent-showed-a-secret",
        f"expected an agent that keeps to its container, found {evidence[0]}",
        hint="see the screen document of this attempt",
        evidence=evidence,
    )


def require_shown(proof: InjectionProof | None) -> None:
    """Ends the attempt unless the proof holds.

    Raises:
        Inadmissible: the arm's memory did not reach the model as declared, or other memory did.
    """
    if proof is None or proof.holds:
        return
    raise Inadmissible(
        f"injection-{proof.result}",
        f"condition {proof.condition_id}: expected the model to be shown exactly the arm's memory, found: {proof.detail}",
        hint="see the injection-proof document of this attempt; `memtrial agents check` proves an agent alone",
        evidence=(
            proof.detail,
            *(f.told for f in (*proof.foreign, *proof.files)[:20]),
        ),
    )


def was_capped(traffic: Traffic | None) -> bool:
    """Tells whether a cap of the call or the trial refused a call: that is the arm's own affair."""
    return traffic is not None and bool({"call", "trial"}.intersection(traffic.caps_met))


def ended_by_bounds(ended: Ended, traffic: Traffic | None, log: ToolLog | None) -> Ended:
    """Returns how an agent ended: by a bound of its own that refused it something, else as its container says.

    Args:
        ended: by the container.
        traffic: what the gateway saw; a cap that was met comes first.
        log: what its arm's tool server did.
    """
    if was_capped(traffic):
        return "model_budget"
    return "tool_budget" if log is not None and log.bound_met is not None else ended


def check_traffic(traffic: Traffic | None) -> None:
    """Refuses, before anything is graded, an attempt that says nothing about its arm.

    Raises:
        IntegrityError: its replay left its recording.
        BudgetExhausted: a cap that trials share was met: of the condition, of the run, or of its approval.
    """
    shared = set(traffic.caps_met) - {"call", "trial"} if traffic is not None else None
    if shared:
        raise BudgetExhausted(
            "budget-exhausted",
            f"expected the cap of {min(shared).replace('_', ' ')} to leave room for the most that the next call may take, found less",
            hint="make a plan with a higher cap",
        )
    left = traffic.divergence if traffic is not None else None
    if left is not None:
        raise IntegrityError(
            "replay-diverged",
            f"call {left.ordinal} of {left.api} ({left.role}) left its recording at {left.pointer or '/'}: expected {left.recorded!r}, found {left.found!r}",
            hint="the container did something else than in the recorded run: compare the two",
        )


def was_unavailable(exchange: Exchange) -> bool:
    """Tells whether a call came to nothing for a reason that the agent has no part in."""
    if exchange.outcome in LOST:
        return True
    return exchange.outcome == "upstream_refused" and (
        exchange.status in NOT_THE_AGENTS or exchange.status >= 500
    )


def require_model(calls: tuple[Exchange, ...]) -> None:
    """Refuses to grade an agent whose model was taken away: its last call came to nothing.

    An error that the agent got over is no matter: its next call was answered.

    Raises:
        EnvironmentMissing: the last call was not answered for a reason that the agent has no part in.
    """
    if not calls or not was_unavailable(calls[-1]):
        return
    last = calls[-1]
    failed = sum(was_unavailable(call) for call in calls)
    raise EnvironmentMissing(
        "model-unavailable",
        f"expected the model to answer the agent's last call, found {last.outcome} with status {last.status} ({failed} of {len(calls)} calls came to nothing)",
        hint="wait until the provider answers again, then `memtrial resume`",
    )

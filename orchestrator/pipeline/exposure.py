"""After an agent has acted: was its model there, and does the gateway's record prove what memory it was shown?

Reads the run's gateway folder. What a provider or the gateway failed to do is infrastructure; memory that
was to be in the prompt and is not proven is the harness's own breach; neither is ever scored.
"""

from __future__ import annotations

from pathlib import Path

from orchestrator.core.errors import EnvironmentMissing, Inadmissible
from orchestrator.gateway.recorded import RecordedCall, calls_of
from orchestrator.gateway.shown import Expected, prove
from orchestrator.model.exchange import Exchange
from orchestrator.model.proof import InjectionProof

# What a provider answers for reasons of its own; other errors are about the request, so the agent's affair.
NOT_THE_AGENTS = frozenset({401, 403, 404, 408, 409, 425, 429})
LOST = frozenset({"upstream_cut", "upstream_unreachable"})


def agent_calls(folder: Path, trial: str, attempt: int) -> tuple[RecordedCall, ...]:
    """Returns the agent's admitted calls of an attempt."""
    return calls_of(folder, trial, attempt, role="agent")


def was_unavailable(exchange: Exchange) -> bool:
    """Tells whether a call came to nothing for a reason that the agent has no part in."""
    if exchange.outcome in LOST:
        return True
    return exchange.outcome == "upstream_refused" and (
        exchange.status in NOT_THE_AGENTS or exchange.status >= 500
    )


def require_model(calls: tuple[RecordedCall, ...]) -> None:
    """Refuses to grade an agent whose model was taken away: its last call came to nothing.

    An error that the agent got over is no matter: its next call was answered.

    Raises:
        EnvironmentMissing: the last call was not answered for a reason that the agent has no part in.
    """
    if not calls or not was_unavailable(calls[-1].exchange):
        return
    last = calls[-1].exchange
    failed = sum(was_unavailable(call.exchange) for call in calls)
    raise EnvironmentMissing(
        "model-unavailable",
        f"expected the model to answer the agent's last call, found {last.outcome} with status {last.status} ({failed} of {len(calls)} calls came to nothing)",
        hint="wait until the provider answers again, then `memtrial resume`",
    )


def prove_injection(calls: tuple[RecordedCall, ...], expected: Expected) -> InjectionProof:
    """Returns the proof for an attempt."""
    return prove(calls, expected)


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
            *(f"call {f.ordinal} {f.pointer}: {f.sign}" for f in proof.foreign[:20]),
        ),
    )

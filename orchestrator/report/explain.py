"""One plain sentence on why a trial ended as it did, from its verdict, the calls that caps refused, and its memory contract."""

from __future__ import annotations

from orchestrator.core.words import counted
from orchestrator.model.lifecycle import ContractFailure
from orchestrator.model.spending import CapCount
from orchestrator.model.verdict import Tally, Verdict

NOT_RUN = "not run yet"


def why(
    verdict: Verdict,
    capped: tuple[CapCount, ...] = (),
    *,
    broken: ContractFailure | None = None,
) -> str:
    """Returns the sentence for a graded trial.

    Args:
        verdict: of the trial; told as it is, whatever else went wrong.
        capped: the calls that caps on model spending refused.
        broken: how its memory system broke its contract, if it did.
    """
    told = _of_verdict(verdict, capped)
    if broken is None:
        return told
    return f"{told}; the memory contract was broken at {broken.step.value}, so it counts as failed for its arm"


def _of_verdict(verdict: Verdict, capped: tuple[CapCount, ...]) -> str:
    if verdict.resolved:
        return "all hidden tests and the base suite pass"
    parts = []
    if verdict.misconduct:
        said = next(v for v in verdict.violations if v.rule == "misconduct")
        return f"misconduct ({said.subject}): {said.detail}; its tests were not run"
    if not verdict.within_limits:
        refused = ", ".join(
            f"{counted(met.calls, 'call')} by the cap per {met.cap}" for met in capped
        )
        parts.append(
            f"models may not cost more: refused were {refused}"
            if capped
            else "the agent was stopped at a limit"
        )
    if verdict.violations:
        first = verdict.violations[0]
        more = f" and {len(verdict.violations) - 1} more" if len(verdict.violations) > 1 else ""
        parts.append(f"{first.rule.replace('_', ' ')}: {first.subject}{more}")
    if not verdict.compiled:
        parts.append("the result does not compile")
    else:
        parts += _tallies(verdict)
    memory = verdict.fail_to_pass_memory
    if not verdict.compiled or memory.passed == memory.expected:
        # Nothing that a memory test asks for went wrong: the facts explain nothing here.
        return "; ".join(parts)
    if verdict.facts_missing:
        parts.append(f"fact {', '.join(verdict.facts_missing)} was not in the injected text")
    elif verdict.facts_delivered:
        parts.append("every fact was in the injected text")
    return "; ".join(parts)


def _tallies(verdict: Verdict) -> list[str]:
    named: tuple[tuple[str, Tally], ...] = (
        ("capability tests", verdict.fail_to_pass_capability),
        ("memory tests", verdict.fail_to_pass_memory),
        ("base suite", verdict.pass_to_pass),
    )
    return [
        f"{name} {tally.passed}/{tally.expected}"
        for name, tally in named
        if tally.passed < tally.expected
    ]

"""How an attempt ended: one closed list, and which of its members say something about an arm.

Pure. Verdict and outcome are two facts that are never merged: the verdict grades the work, the outcome
says how the attempt came to its end. Decisions and their reasons: docs/adr/0021-outcomes.md.
"""

from __future__ import annotations

from enum import StrEnum

from orchestrator.core import errors
from orchestrator.model.verdict import Acted, FailureReason, Verdict


class Outcome(StrEnum):
    """The end of one attempt."""

    COMPLETED = "completed"
    """The agent ended by itself and its work was graded."""
    TIMEOUT = "timeout"
    """The agent, or the tests of its work, ran out of time: a failed trial of its arm."""
    BUDGET = "budget"
    """Another limit ended the agent (memory, output, model calls, questions to its tools): a failed trial if it
    could be graded. Without a verdict, a cap of the whole run was used up first: not scored."""
    MISCONDUCT = "misconduct"
    """The agent did what no agent may: a failed trial, whatever its tests say."""
    INADMISSIBLE = "inadmissible"
    """The harness broke its promise: the task x epoch block is dropped across all arms."""
    INFRA_ERROR = "infra_error"
    """Anything else that went wrong: never scored, retried within the plan's policy."""
    CANCELLED = "cancelled"
    """Somebody stopped it, an approval was withdrawn, or the orchestrator died: run again by `memtrial resume`."""


GRADED = frozenset({Outcome.COMPLETED, Outcome.TIMEOUT, Outcome.MISCONDUCT})
"""Outcomes that must carry a verdict; `budget` may, no other does."""

MAY_BE_GRADED = GRADED | {Outcome.BUDGET}

RETRIED = frozenset({Outcome.INFRA_ERROR})
"""Outcomes that are tried again within the policy of the plan."""

OUTCOME_OF_ERROR: dict[type[errors.MemtrialError], Outcome] = {
    errors.MemtrialError: Outcome.INFRA_ERROR,
    errors.Negative: Outcome.INFRA_ERROR,
    errors.UsageError: Outcome.INFRA_ERROR,
    errors.DocumentError: Outcome.INFRA_ERROR,
    errors.EnvironmentMissing: Outcome.INFRA_ERROR,
    errors.IntegrityError: Outcome.INFRA_ERROR,
    errors.Incomplete: Outcome.INFRA_ERROR,
    errors.Witnessed: Outcome.INFRA_ERROR,
    errors.ApprovalRefused: Outcome.CANCELLED,
    errors.BudgetExhausted: Outcome.BUDGET,
    errors.Inadmissible: Outcome.INADMISSIBLE,
    errors.Misconduct: Outcome.MISCONDUCT,
    errors.Cancelled: Outcome.CANCELLED,
}
"""One outcome per class; a class of an upper room has that of its nearest ancestor here."""


def outcome_of_error(error: BaseException) -> Outcome:
    """Returns the outcome that an error stands for; what is unknown is infrastructure."""
    for kind in type(error).__mro__:
        if kind in OUTCOME_OF_ERROR:
            return OUTCOME_OF_ERROR[kind]
    return Outcome.INFRA_ERROR


def outcome_of_trial(acted: Acted | None, verdict: Verdict) -> Outcome:
    """Returns the outcome of an attempt that came to a verdict.

    Args:
        acted: how the agent ended; None where misconduct was seen before that was recorded.
        verdict: the grade of its work.
    """
    if verdict.misconduct:
        return Outcome.MISCONDUCT
    ended = "exited" if acted is None else acted.ended
    if ended in {"output_limit", "oom_killed", "model_budget", "tool_budget"}:
        return Outcome.BUDGET
    if ended == "time_limit" or verdict.failure_reason is FailureReason.TIMEOUT:
        return Outcome.TIMEOUT
    return Outcome.COMPLETED

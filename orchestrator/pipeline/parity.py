"""Parity on the read side: every arm of a task is told the same sessions and asked the same query. Pure.

Made before a plan is accepted and pinned in it; a trial whose memory is handed something else is no trial
of that plan. Budgets are compared in model.symmetry.
"""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.core.canonical import digest_sha256
from orchestrator.core.errors import DocumentError
from orchestrator.memory.compile import CLOSE, HEADER, OPEN
from orchestrator.memory.life import Limits, sessions_sha256
from orchestrator.memory.sessions import PROJECT, sessions_of
from orchestrator.model.condition import Condition
from orchestrator.model.lifecycle import MAX_K, Query
from orchestrator.model.plan import MemoryParity, TaskParity
from orchestrator.model.symmetry import asked_k
from orchestrator.model.task import Brief, History

LIMITS = Limits()
"""The limits of the steps of every memory system's life."""

WILDCARDS = frozenset("*?[")


def query_of(brief: Brief, k: int | None, *, files: bool = False) -> Query:
    """Returns what every memory system is asked about a task.

    Args:
        brief: of the task; the answer key has no part in a query.
        k: how many items at most; None for as many as there may be.
        files: whether the paths that the agent may change are told (those that are no patterns).
    """
    named = tuple(p for p in brief.allowed_paths if not set(p) & WILDCARDS) if files else None
    return Query(prompt=brief.prompt, scope=PROJECT, k=k or MAX_K, files_in_scope=named)


def question_sha256(query: Query) -> str:
    """Returns the digest of what is asked, apart from how many items may come back."""
    return query.model_copy(update={"k": MAX_K}).digest_sha256()


def parity_of(
    tasks: Sequence[tuple[History, Brief]], conditions: tuple[Condition, ...]
) -> MemoryParity:
    """Returns what all arms have in common.

    Raises:
        DocumentError: arms that are compared differ in how much they may retrieve, or in whether they are
            told which files matter.
    """
    unequal = _unequal(conditions)
    if unequal:
        raise DocumentError(
            "arms-not-in-parity",
            unequal,
            hint="give all arms that are compared the same retrieve_k and files_in_scope in conditions.json",
        )
    files = any(condition.files_in_scope for condition in conditions)
    return MemoryParity(
        template_sha256=digest_sha256([OPEN, HEADER, CLOSE]),
        files_in_scope=files,
        step_ms=round(LIMITS.step_s * 1000),
        settle_s=LIMITS.settle_s,
        answer_bytes=LIMITS.answer_bytes,
        tasks=tuple(
            TaskParity(
                task_id=history.task_id,
                sessions_sha256=sessions_sha256(sessions_of(history)),
                query_sha256=question_sha256(query_of(brief, None, files=files)),
            )
            for history, brief in tasks
        ),
    )


def limits_of(parity: MemoryParity) -> Limits:
    """Returns the limits that a plan pins for the steps of every memory system."""
    return Limits(
        step_s=parity.step_ms / 1000, settle_s=parity.settle_s, answer_bytes=parity.answer_bytes
    )


def _compared(conditions: tuple[Condition, ...]) -> list[Condition]:
    """Arms with memory that stand beside one another; a diagnostic one may see more (`symmetry.outside_parity`)."""
    return [c for c in conditions if c.budget and c.role != "diagnostic"]


def _unequal(conditions: tuple[Condition, ...]) -> str | None:
    compared = _compared(conditions)
    ks = {c.id: k for c in compared if (k := asked_k(c))}
    if len(set(ks.values())) > 1:
        listed = ", ".join(f"{k} under {name}" for name, k in ks.items())
        return f"expected one retrieve_k for all arms that search and are compared, found {listed}"
    told = [c.id for c in conditions if c.budget and c.files_in_scope]
    untold = [c.id for c in conditions if c.budget and not c.files_in_scope]
    if told and untold:
        return f"expected the files in scope for all arms or for none, found them for {told[0]} and not for {untold[0]}"
    return None

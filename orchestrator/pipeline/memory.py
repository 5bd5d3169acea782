"""What a trial hands to its memory system: sessions, a query, an empty place, and a fresh adapter.

Sees the history, the prompt and the plan. The prompt is wrapped into the query here and is not handed over
before the store is frozen; the answer key is not known to this module.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from orchestrator.core.canonical import sha256_hex
from orchestrator.core.errors import DocumentError
from orchestrator.memory.curated import CuratedAdapter
from orchestrator.memory.life import Assignment
from orchestrator.memory.none import NoMemoryAdapter
from orchestrator.memory.raw_fts import RawFtsAdapter
from orchestrator.memory.sessions import PROJECT, HistoryClock, sessions_of
from orchestrator.memory.tokens import TokenCounter
from orchestrator.model.condition import Condition
from orchestrator.model.lifecycle import MAX_K, Query
from orchestrator.model.plan import Plan, Trial
from orchestrator.model.task import Brief, History
from orchestrator.protocols import GatewayAccess, MemoryAdapter, MemoryPlace

SEED_DIGITS = 12
"""Hexadecimal digits of a seed: it stays an exact integer in JSON."""


def adapter_of(
    condition: Condition, curated: str | None, counter: TokenCounter
) -> Callable[[], MemoryAdapter]:
    """Returns what makes a fresh adapter of an arm.

    Args:
        condition: the arm.
        curated: the curated file of the task, for an arm that serves it.
        counter: counts tokens.

    Raises:
        DocumentError: the arm serves a curated file and the task has none.
    """
    if condition.adapter == "none":
        return lambda: NoMemoryAdapter(counter)
    if condition.adapter == "raw_fts":
        return lambda: RawFtsAdapter(counter)
    if curated is None:
        raise DocumentError(
            "curated-file-missing",
            f"condition {condition.id}: expected a curated file of the task, found none",
            hint="add fixtures/curated/TASK/MEMORY.md with its log",
        )
    return lambda: CuratedAdapter(curated, counter)


@contextmanager
def memory_assignment(
    plan: Plan,
    trial: Trial,
    history: History,
    brief: Brief,
    *,
    gateway: GatewayAccess | None = None,
) -> Iterator[Assignment]:
    """Gives what a trial's memory system works with; its folders are gone afterwards."""
    condition = plan.condition(trial.condition_id)
    sessions = sessions_of(history)
    clock = HistoryClock(sessions[0].started_at)
    with tempfile.TemporaryDirectory(prefix="memtrial-memory-") as folder:
        workdir, home = Path(folder) / "work", Path(folder) / "home"
        workdir.mkdir()
        home.mkdir()
        yield Assignment(
            condition=condition,
            sessions=sessions,
            query=Query(prompt=brief.prompt, scope=PROJECT, k=condition.retrieve_k or MAX_K),
            place=MemoryPlace(
                workdir=workdir,
                home=home,
                gateway=gateway,
                clock=clock,
                budget=condition.budget,
                seed=seed_of(plan, trial),
            ),
            clock=clock,
            ours=True,
        )


def seed_of(plan: Plan, trial: Trial) -> int:
    """Returns the seed of a trial's memory: equal in every arm of a task and epoch, another in each epoch."""
    drawn = sha256_hex(f"memory|{plan.order_seed}|{trial.task_id}|{trial.epoch}".encode())
    return int(drawn[:SEED_DIGITS], 16)

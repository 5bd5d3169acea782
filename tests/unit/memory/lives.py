"""Takes a memory system through its life over a history, as the harness does, in folders of the test's own."""

from __future__ import annotations

import tempfile
from pathlib import Path

from orchestrator.core.canonical import sha256_hex
from orchestrator.memory.life import Assignment, Limits, live
from orchestrator.memory.sessions import PROJECT, HistoryClock, sessions_of
from orchestrator.memory.tokens import TokenCounter
from orchestrator.model.condition import Condition, MemoryBudget
from orchestrator.model.lifecycle import GoldFacts, Query
from orchestrator.model.memory import Remembered
from orchestrator.model.task import Episode, Event, History
from orchestrator.protocols import GatewayAccess, MemoryAdapter, MemoryPlace

COUNTER = TokenCounter()
AT = "2026-01-05T09:00:00Z"


def said(*texts: str) -> History:
    events = tuple(
        Event(event_id=f"e{i}", at=AT, role="user", text=text) for i, text in enumerate(texts)
    )
    return History(task_id="t", episodes=(Episode(episode_id="ep", started_at=AT, events=events),))


def arm(adapter: str, *, max_tokens: int | None = 100, k: int | None = None) -> Condition:
    return Condition(
        id=adapter,
        role="control",
        summary="s",
        adapter=adapter,
        budget=MemoryBudget(unit="o200k_base", max_tokens=max_tokens) if max_tokens else None,
        retrieve_k=k,
    )


def life_of(
    adapter: MemoryAdapter,
    condition: Condition,
    history: History,
    prompt: str = "prompt",
    *,
    k: int = 10,
    kept: dict[str, bytes] | None = None,
    gold: GoldFacts | None = None,
    limits: Limits | None = None,
    gateway: GatewayAccess | None = None,
    socket: Path | None = None,
) -> Remembered:
    """Returns what the life came to; `kept` is filled with the documents of its steps."""
    store: dict[str, bytes] = {} if kept is None else kept

    def keep(name: str, data: bytes) -> str:
        store[name] = data
        return sha256_hex(data)

    sessions = sessions_of(history)
    clock = HistoryClock(sessions[0].started_at)
    with tempfile.TemporaryDirectory() as folder:
        workdir, home = Path(folder) / "work", Path(folder) / "home"
        workdir.mkdir()
        home.mkdir()
        return live(
            adapter,
            Assignment(
                condition=condition,
                sessions=sessions,
                query=Query(prompt=prompt, scope=PROJECT, k=condition.retrieve_k or k),
                place=MemoryPlace(
                    workdir=workdir,
                    home=home,
                    gateway=gateway,
                    socket=socket,
                    clock=clock,
                    budget=condition.budget,
                    seed=1,
                ),
                clock=clock,
                gold=gold,
                limits=limits or Limits(),
            ),
            COUNTER,
            keep=keep,
        )

"""The control arm `raw_history_tail`: the latest events verbatim, as many as the budget holds.

Chosen from the newest backwards and shown in the order in which they happened.
"""

from __future__ import annotations

from orchestrator.memory.builtin import ranked_of
from orchestrator.memory.compile import compile_context, render_item
from orchestrator.memory.supplies import Supplies
from orchestrator.memory.verbatim import VerbatimMemory
from orchestrator.model.condition import MemoryBudget
from orchestrator.model.lifecycle import CompiledContext, DroppedItem, Query, Ranked


class TailMemory(VerbatimMemory):
    """Ranks by time alone, latest first."""

    name = "history_tail"

    def retrieve(self, query: Query) -> Ranked:
        """Returns the latest events of the scope."""
        mine = [memory for memory in self._memories if memory.scope == query.scope]
        return ranked_of(query, mine[::-1][: query.k], considered=len(mine))

    def compile(self, ranked: Ranked, budget: MemoryBudget) -> CompiledContext:
        """Takes the newest events without a gap, then shows them oldest first."""
        tail: list[str] = []
        for item in ranked.items:
            trial = compile_context(
                self._only(ranked, [*tail, item.memory_id]), budget, self._counter
            )
            if any(drop.reason == "over_budget" for drop in trial.dropped):
                break
            tail.append(item.memory_id)
        chosen = self._only(ranked, tail)
        context = compile_context(
            chosen.model_copy(update={"items": chosen.items[::-1]}), budget, self._counter
        )
        left = [item for item in ranked.items if item.memory_id not in tail]
        drops = tuple(
            DroppedItem(
                item_id=item.memory_id,
                tokens=self._counter.count(render_item(item)),
                reason="over_budget",
            )
            for item in left
        )
        return context.model_copy(update={"dropped": (*context.dropped, *drops)})

    def _only(self, ranked: Ranked, names: list[str]) -> Ranked:
        items = tuple(item for item in ranked.items if item.memory_id in names)
        return ranked.model_copy(update={"items": items})


def make(name: str, supplies: Supplies) -> TailMemory:
    """Makes the arm."""
    return TailMemory(supplies.counter)

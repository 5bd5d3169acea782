"""The control arm `placebo_context`: as many tokens as the budget holds, about nothing that matters here.

Notes of a household, made by rule from a short list of words and from nothing of any history. What this
arm gains or loses against no memory is the effect of text as such.
"""

from __future__ import annotations

from itertools import count

from orchestrator.memory.builtin import BuiltinMemory
from orchestrator.memory.compile import HEADER, framed, render_item
from orchestrator.memory.sessions import PROJECT
from orchestrator.memory.supplies import Supplies
from orchestrator.model.condition import MemoryBudget
from orchestrator.model.lifecycle import RankedItem, StoredMemory
from orchestrator.protocols import MemoryPlace

_WHO = ("Mara", "the neighbour", "Uncle Oskar", "the gardener", "Lena", "the choir")
_DID = ("watered", "repainted", "carried in", "borrowed", "photographed", "swept around")
_WHAT = ("the tulips", "the garden chairs", "the old piano", "the bird house", "the apple crates")
_WHEN = ("before breakfast", "after the rain", "on a Sunday", "while soup was cooking")


class PlaceboMemory(BuiltinMemory):
    """Fills the budget."""

    name = "placebo"
    information = "curated"

    def open(self, place: MemoryPlace) -> None:
        """Writes notes until the budget is full, the last one cut to what is left."""
        super().open(place)
        budget = place.budget
        for number in count(1) if budget else ():
            if budget is not None and not self._add(number, budget):
                return

    def _add(self, number: int, budget: MemoryBudget) -> bool:
        """Adds a note, whole or cut; returns whether there may be room for another."""
        words = sentence(number).split()
        for length in range(len(words), 0, -1):
            note = _memory(number, " ".join(words[:length]))
            if self._tokens([*self._memories, note]) <= budget.max_tokens:
                self._memories.append(note)
                return length == len(words)
        return False

    def _tokens(self, memories: list[StoredMemory]) -> int:
        lines = (render_item(RankedItem(memory_id=m.memory_id, text=m.text)) for m in memories)
        return self._counter.count(framed(HEADER + "".join(lines)))


def sentence(number: int) -> str:
    """Returns a note; no two of the first 720 are equal."""
    who, did = _WHO[number % 6], _DID[number // 6 % 6]
    what, when = _WHAT[number // 36 % 5], _WHEN[number // 180 % 4]
    return f"{who.capitalize()} {did} {what} {when}, and everybody agreed that it had been a quiet week."


def _memory(number: int, text: str) -> StoredMemory:
    return StoredMemory(
        memory_id=f"p{number:03d}", kind="entry", text=text, scope=PROJECT, status="active"
    )


def make(name: str, supplies: Supplies) -> PlaceboMemory:
    """Makes the arm."""
    return PlaceboMemory(supplies.counter)

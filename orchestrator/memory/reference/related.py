"""Finds the memories that a new statement is about, by rare shared words. Pure Python, grows with the store.

An inverted index in memory, so that ten thousand statements are compared in seconds; SQLite's own index is
made for queries of people and ranks by other rules.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Final

from orchestrator.memory.reference.text import terms, values

# A word that more memories have than this says little about which of them is meant.
MAX_POSTINGS: Final = 200
MAX_RELATED: Final = 20


@dataclass(frozen=True, slots=True)
class Known:
    """An active memory as it is compared."""

    memory_id: str
    scope: str
    text: str
    at: str
    terms: frozenset[str]
    values: frozenset[str]


@dataclass(frozen=True, slots=True)
class Relation:
    """How much two statements are about one thing, both from 0 to 1.

    `covered`: what share of the known memory's words, weighted by rarity, the new one has too. `alike`: the
    same share of all words of both.
    """

    known: Known
    covered: float
    alike: float


@dataclass(slots=True)
class Index:
    """The active memories of a store by their words."""

    known: dict[str, Known] = field(default_factory=dict)
    _postings: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def add(self, memory_id: str, scope: str, text: str, at: str) -> None:
        """Adds an active memory."""
        known = Known(memory_id, scope, text, at, terms(text), values(text))
        self.known[memory_id] = known
        for term in known.terms:
            self._postings[term].add(memory_id)

    def remove(self, memory_id: str) -> None:
        """Takes away a memory that is active no more."""
        known = self.known.pop(memory_id)
        for term in known.terms:
            self._postings[term].discard(memory_id)

    def rarity(self, term: str) -> float:
        """Returns the weight of a word: the logarithm of how rare it is (inverse document frequency)."""
        return math.log(1 + (len(self.known) + 1) / (1 + len(self._postings.get(term, ()))))

    def related(self, text: str, scope: str) -> list[Relation]:
        """Returns the memories of a scope that share words with a text, the most alike first."""
        wanted = terms(text)
        counts: dict[str, int] = defaultdict(int)
        for term in sorted(wanted):
            postings = self._postings.get(term, set())
            if len(postings) <= MAX_POSTINGS:
                for memory_id in postings:
                    counts[memory_id] += 1
        near = sorted(counts, key=lambda m: (-counts[m], m))[: 2 * MAX_RELATED]
        rarities: dict[str, float] = {}
        found = [self._relation(wanted, self.known[m], rarities) for m in near]
        found = [r for r in found if r.known.scope == scope]
        return sorted(found, key=lambda r: (-round(r.alike, 9), r.known.memory_id))[:MAX_RELATED]

    def _relation(
        self, wanted: frozenset[str], known: Known, rarities: dict[str, float]
    ) -> Relation:
        for term in wanted | known.terms:
            if term not in rarities:
                rarities[term] = self.rarity(term)
        # `fsum` is exact, so the order in which a set gives its members changes nothing.
        shared = math.fsum(rarities[t] for t in wanted & known.terms)
        theirs = math.fsum(rarities[t] for t in known.terms)
        both = math.fsum(rarities[t] for t in wanted | known.terms)
        return Relation(known, shared / theirs if theirs else 0.0, shared / both if both else 0.0)


def near_duplicates(texts: list[tuple[str, str]], cap: int, *, alike: float = 0.7) -> list[str]:
    """Returns the ids of texts that come after `cap` others which say nearly the same.

    Args:
        texts: id and text, the best first.
        cap: how many of a kind may stay.
        alike: from which share of common words two texts are of a kind (Jaccard, from 0 to 1).
    """
    kept: list[frozenset[str]] = []
    crowd: list[str] = []
    for name, text in texts:
        words = terms(text)
        twins = sum(len(words & other) >= alike * max(1, len(words | other)) for other in kept)
        if twins >= cap:
            crowd.append(name)
        else:
            kept.append(words)
    return crowd

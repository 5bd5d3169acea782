"""Whether a text holds a fact of the answer key, by the key's own matchers; nobody but graders has them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

from orchestrator.model.task import GoldFact, Key, StaleFact

# What a fact is looked for in; no budget that makes sense injects more.
MAX_MATCHED_CHARACTERS = 1_000_000
_WORD = re.compile(r"[^\W_]{4,}")

Fact = GoldFact | StaleFact


class Carrier(Protocol):
    """Something with an id, a text and the events that it cites."""

    @property
    def carrier_id(self) -> str:
        """The id."""

    @property
    def text(self) -> str:
        """The text."""

    @property
    def evidence(self) -> tuple[str, ...]:
        """Ids of events."""


C = TypeVar("C", bound=Carrier)


def holds(fact: Fact, text: str) -> bool:
    """Whether all matchers occur; a fact that is wrapped over lines counts like one that is not."""
    text = text[:MAX_MATCHED_CHARACTERS]
    readings = (text, " ".join(text.split()))
    return bool(text) and all(
        any(re.search(pattern, reading, re.IGNORECASE) for reading in readings)
        for pattern in fact.matchers
    )


def occurs_in(pattern: str, lines: list[str]) -> bool:
    """Whether a matcher occurs in a line; line by line, so that a line's length bounds its cost."""
    return any(re.search(pattern, line, re.IGNORECASE) for line in lines)


def events_of(fact: Fact) -> tuple[str, ...]:
    """Returns the events that a fact rests on."""
    return fact.supporting_event_ids if isinstance(fact, GoldFact) else fact.event_ids


def holders(fact: Fact, carriers: Sequence[C]) -> tuple[C, ...]:
    """Returns what carries a fact: each that holds it alone, else those that hold it together.

    Together count only carriers that cite an event of the fact, or that cite nothing at all (a file's entries):
    the words of a fact can stand scattered in any large heap.
    """
    alone = tuple(carrier for carrier in carriers if holds(fact, carrier.text))
    if alone:
        return alone
    events = set(events_of(fact))
    for group in (
        [carrier for carrier in carriers if events & set(carrier.evidence)],
        [carrier for carrier in carriers if not carrier.evidence],
    ):
        if holds(fact, "\n".join(carrier.text for carrier in group)):
            return tuple(carrier for carrier in group if _holds_some(fact, carrier.text))
    return ()


def _holds_some(fact: Fact, text: str) -> bool:
    return any(re.search(pattern, text, re.IGNORECASE) for pattern in fact.matchers)


def counterparts(key: Key) -> dict[str, tuple[StaleFact, ...]]:
    """Returns for each gold fact the superseded values that it stands against.

    A key does not say so itself: a superseded value belongs to the facts whose statements share most words
    (of four letters and more) with its own; to all facts if none shares any.
    """
    found: dict[str, list[StaleFact]] = {fact.id: [] for fact in key.card.gold_facts}
    for stale in key.card.stale_facts:
        shared = {
            fact.id: len(_words(stale.statement) & _words(fact.statement))
            for fact in key.card.gold_facts
        }
        most = max(shared.values())
        for fact_id, count in shared.items():
            if count == most:
                found[fact_id].append(stale)
    return {fact_id: tuple(stale) for fact_id, stale in found.items()}


def _words(text: str) -> set[str]:
    return {word.casefold() for word in _WORD.findall(text)}


def clusters(texts: Iterable[str], *, alike: float = 0.45) -> int:
    """Returns how many distinct texts there are: one joins the first whose words it shares enough of.

    Args:
        texts: in rank order.
        alike: Jaccard index of word sets from which two texts are one fact said twice.
    """
    kept: list[set[str]] = []
    for text in texts:
        words = _words(text)
        if not any(len(words & other) >= alike * len(words | other) for other in kept):
            kept.append(words)
    return len(kept)

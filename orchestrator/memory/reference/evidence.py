"""Holds a claim against the events that it cites. Pure; work grows with the events' characters times the sentences.

What a claim says together must stand together: a sentence is looked for in one place of one event, since the words
of many events, or of a long one, hold nearly every number.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Final

from orchestrator.memory.reference.text import content, is_number, sentences, stands_in

PLACE_WORDS: Final = 100
"""How many content words in a row are one place: a paragraph, or a message of ordinary length."""
_SUPPORTED: Final = 0.5
_BEFORE_UNIT: Final = re.compile(r"(?<![^\W_])(\d+)(?=[^\W\d_])")


def unsaid_in(claim: str, events: tuple[str, ...]) -> frozenset[str] | None:
    """Returns the words of a claim that its evidence lacks; None if the evidence supports it.

    It does if an event says the claim word for word, or if the claim's sentences share half of their words with
    where they were said: the event of which one is a sentence, else the place that says most of it. A place that
    says a sentence with numbers holds every one of them beside half of its other words.

    Args:
        claim: what was proposed.
        events: the whole captured text of each cited event; a long one takes nothing away from what it says.
    """
    if any(stands_in(claim, text) for text in events):
        return None
    said = {sentence for text in events for sentence in _parts(text)}
    told = [_words(text) for text in events]
    wanted, found = 0, 0
    missing: set[str] = set()
    apart = False
    for sentence in _with_their_subjects(_parts(claim), said):
        words = frozenset(_words(sentence))
        held = words if sentence in said else _most(words, told)
        numbers = frozenset(filter(is_number, words))
        beside = len(held - numbers) >= _SUPPORTED * len(words - numbers)
        apart |= bool(numbers) and not (numbers <= held and beside)
        wanted, found = wanted + len(words), found + len(held)
        missing |= words - held
    return frozenset(missing) if apart or found < _SUPPORTED * wanted else None


def _parts(text: str) -> list[str]:
    """Returns the sentences of a text in order, cut at every dash that may stand for a change of speaker."""
    return [" ".join(s.split()) for part in text.split(" - ") for s in sentences(part)]


def _with_their_subjects(claimed: list[str], said: set[str]) -> list[str]:
    """Joins what holds numbers alone to the sentence before it, unless somebody said just that."""
    joined: list[str] = []
    for sentence in claimed:
        if joined and sentence not in said and all(map(is_number, _words(sentence))):
            joined[-1] = f"{joined[-1]} {sentence}"
        else:
            joined.append(sentence)
    return joined


def _most(words: frozenset[str], told: list[list[str]]) -> frozenset[str]:
    """Returns what the place that says most of these words holds of them; one with all their numbers goes first."""
    numbers = frozenset(filter(is_number, words))
    return max(
        (place for said in told for place in _places(words, said)),
        key=lambda place: (numbers <= place, len(place)),
        default=frozenset(),
    )


def _words(text: str) -> list[str]:
    """Returns the content words of a text in order, a number apart from its unit: `30s` says 30."""
    return content(_BEFORE_UNIT.sub(r"\1 ", text))


def _places(words: frozenset[str], told: list[str]) -> Iterator[frozenset[str]]:
    """Yields what the places of an event hold of these words: each place that holds one more than the one before."""
    at = [(number, word) for number, word in enumerate(told) if word in words]
    held: Counter[str] = Counter()
    first = 0
    for number, word in at:
        while number - at[first][0] >= PLACE_WORDS:
            gone = at[first][1]
            held[gone] -= 1
            if not held[gone]:
                del held[gone]
            first += 1
        held[word] += 1
        if held[word] == 1:
            yield frozenset(held)

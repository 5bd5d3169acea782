"""Promise: a claim is held against places of its events, in work that grows with the events and no faster."""

from __future__ import annotations

import random

import pytest

from orchestrator.memory.reference.evidence import PLACE_WORDS, _places

WORDS = frozenset("abc")


def every_place(told: list[str]) -> set[frozenset[str]]:
    """What every run of so many words holds."""
    runs = [told[end - PLACE_WORDS if end > PLACE_WORDS else 0 : end] for end in range(len(told) + 1)]  # fmt: skip
    return {frozenset(run) & WORDS for run in runs}


@pytest.mark.parametrize("seed", range(20))
def test_no_place_says_more_than_those_that_are_looked_at(seed):
    draw = random.Random(seed)
    told = draw.choices(["a", "b", "c", *("x" * 300)], k=3_000)
    most = max(map(len, every_place(told)))
    assert max((len(place) for place in _places(WORDS, told)), default=0) == most


def test_words_at_the_ends_of_a_place_are_in_it_together_and_one_further_are_not():
    fill = ["x"] * (PLACE_WORDS - 2)
    assert frozenset("ab") in set(_places(WORDS, ["a", *fill, "b"]))
    assert frozenset("ab") not in set(_places(WORDS, ["a", *fill, "x", "b"]))


def test_an_event_that_says_the_same_again_and_again_has_few_places():
    assert len(list(_places(WORDS, ["a", "b", "c"] * 10_000))) == 3

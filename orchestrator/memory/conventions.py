"""The arm `conventions`: the curated file without its rejected options, as teams keep lists of choices.

What it loses against the file itself is what remembering rejections is worth. Target-blind: one rule for
every file, by cues of rejection, clause by clause.
"""

from __future__ import annotations

import re

from orchestrator.memory.curated import CuratedAdapter, file_of, split_entries
from orchestrator.memory.supplies import Supplies
from orchestrator.memory.tokens import TokenCounter

_CLAUSE_END = re.compile(
    r"(?<=[.;:!?])\s+|,\s+(?=(?:but|not|never|instead|rather|no|nor|without)\b)"
)
_REJECTION = re.compile(
    r"\b(?:not|never|no|nor|none|nothing|without|instead|rather|reject\w*|refus\w*|rul\w+ out|dropp\w+|"
    r"avoid\w*|forbid\w*|forbidden|except|unless|neither|cannot|won't|don't|doesn't|isn't|mustn't)\b",
    re.IGNORECASE,
)


class ConventionsAdapter(CuratedAdapter):
    """Serves what is left of a curated file without rejections."""

    name = "conventions"

    def __init__(self, text: str, counter: TokenCounter) -> None:
        super().__init__("", counter)
        kept = (choices_only(entry) for entry in split_entries(text))
        self._entries = [entry for entry in kept if entry]


def choices_only(entry: str) -> str:
    """Returns the clauses of an entry that reject nothing."""
    clauses = (clause.strip(" ,") for clause in _CLAUSE_END.split(entry))
    return " ".join(clause for clause in clauses if clause and not _REJECTION.search(clause))


def make(name: str, supplies: Supplies) -> ConventionsAdapter:
    """Makes the arm."""
    return ConventionsAdapter(file_of(supplies), supplies.counter)

"""Path patterns: `*` and `?` within one part, `**` for any number of parts (also none). Case matters. Pure.

No wildcard matches a part of no characters: a path has none, and what poses as one must match nothing by chance.

A pattern becomes a regular expression that never goes back into what it has matched: what stands between
two wildcards is of fixed length, so its first occurrence is as good as any later one (the argument of
fnmatch.translate in Python's library), and atomic groups (Python 3.11) keep it. The cost is at most the
length of the path times the length of the pattern.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import groupby

_ANY_PARTS = r"(?:[^/]++/)"


def matches_any(path: str, patterns: Iterable[str]) -> bool:
    """Tells whether a path matches one of the patterns."""
    return any(re.fullmatch(_expression(pattern), path) for pattern in patterns)


def expressions(patterns: Iterable[str]) -> tuple[str, ...]:
    """Returns each pattern as a regular expression for whole paths, where only those can be used."""
    return tuple(_expression(pattern) for pattern in patterns)


def _expression(pattern: str) -> str:
    """Translates one pattern; `a/**` covers what lies below `a`, not `a` itself."""
    *parts, last = pattern.split("/")
    # The runs of parts between `**`; equal neighbours of `**` say no more than one.
    runs: list[str] = [""]
    for is_any, group in groupby(parts, key=lambda part: part == "**"):
        if is_any:
            runs.append("")
        else:
            runs[-1] = "".join(f"{_part(part)}/" for part in group)
    first, *middle = runs
    if last == "**":
        # Whatever is left, so that all that came before may stop at its first occurrence.
        return first + "".join(_first_occurrence(run) for run in middle) + r"[^/]++(?:/[^/]++)*+"
    if not middle:
        return first + _part(last)
    found = "".join(_first_occurrence(run) for run in middle[:-1])
    return f"{first}{found}{_ANY_PARTS}*{middle[-1]}{_part(last)}"


def _first_occurrence(run: str) -> str:
    return f"(?>{_ANY_PARTS}*?{run})" if run else ""


def _part(part: str) -> str:
    """Translates one part, to match exactly one part of a path."""
    first, *rest = part.split("*")
    if not rest:
        return _literal(first)
    found = "".join(f"(?>[^/]*?{_literal(piece)})" for piece in rest[:-1] if piece)
    return f"(?>(?=[^/]){_literal(first)}{found}[^/]*{_literal(rest[-1])}(?![^/]))"


def _literal(piece: str) -> str:
    return "".join("[^/]" if c == "?" else re.escape(c) for c in piece)

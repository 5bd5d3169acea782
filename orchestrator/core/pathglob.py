"""Path patterns: `*` and `?` within one part, `**` for any number of parts (also none). Case matters. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable


def matches_any(path: str, patterns: Iterable[str]) -> bool:
    """Tells whether a path matches one of the patterns."""
    return any(_expression(pattern).fullmatch(path) for pattern in patterns)


def expressions(patterns: Iterable[str]) -> tuple[str, ...]:
    """Returns each pattern as a regular expression for whole paths, where only those can be used."""
    return tuple(_expression(pattern).pattern for pattern in patterns)


def _expression(pattern: str) -> re.Pattern[str]:
    """Translates one pattern; `a/**` also covers nothing but what lies below `a`."""
    parts = pattern.split("/")
    out = ""
    for index, part in enumerate(parts):
        last = index == len(parts) - 1
        if part == "**":
            out += r"[^/]+(?:/[^/]+)*" if last else r"(?:[^/]+/)*"
        else:
            out += "".join({"*": "[^/]*", "?": "[^/]"}.get(c, re.escape(c)) for c in part)
            out += "" if last else "/"
    return re.compile(out, re.DOTALL)

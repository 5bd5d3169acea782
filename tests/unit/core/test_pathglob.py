"""Promise: patterns mean what the plain translation means, and cost no more than path times pattern."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from orchestrator.core.pathglob import expressions, matches_any


def plain(pattern: str) -> str:
    """The meaning of a pattern, written down without a thought for its cost."""
    *parts, last = pattern.split("/")
    one = [_one(part) for part in parts]
    before = "".join(
        "(?:[^/]+/)*" if part == "**" else f"{translated}/"
        for part, translated in zip(parts, one, strict=True)
    )
    return before + ("[^/]+(?:/[^/]+)*" if last == "**" else _one(last))


def _one(part: str) -> str:
    meant = "".join({"*": "[^/]*", "?": "[^/]"}.get(c, re.escape(c)) for c in part)
    return f"(?=[^/]){meant}" if "*" in part else meant


PATHS = st.text("ab/.\n", max_size=9)
PATTERNS = st.lists(
    st.sampled_from(["**", "*", "a", "b", "?", "a*", "*b", "a*a", "*a*b*", "***", "", "."]),
    min_size=1,
    max_size=5,
).map("/".join) | st.text("ab/*?.", max_size=9)


@settings(max_examples=600, deadline=None)
@example("a", "a*a")
@example("aba", "a*ba*a")
@example("a/b/a/b", "**/a/b")
@example("a/b/a/b/c", "**/a/**/b/*")
@example("a", "**/**/a")
@example("a//b", "a/**/b")
@example("a/", "a/*")
@example("a//a", "**/*/**")
@given(PATHS, PATTERNS)
def test_every_pattern_means_what_its_plain_translation_means(path: str, pattern: str) -> None:
    expected = re.fullmatch(plain(pattern), path, re.DOTALL) is not None
    assert matches_any(path, [pattern]) is expected
    (expression,) = expressions([pattern])
    assert (re.compile(f"(?:{expression})", re.DOTALL).fullmatch(path) is not None) is expected


@pytest.mark.parametrize(
    ("path", "pattern"),
    [
        ("a" * 4_000, "a*" * 12 + "b"),
        ("a" * 4_000, "*a" * 30 + "b"),
        ("a/" * 2_000 + "a", "**/a/" * 12 + "b"),
        ("a/" * 2_000 + "a", "**/*/" * 12 + "b"),
        ("a/" * 2_000 + "a", "**/" * 30 + "b"),
        ("a/" * 2_000 + "a", "**/*a*a*/" * 8 + "**/b"),
    ],
)
def test_a_path_and_a_pattern_made_to_backtrack_are_told_apart_without_it(
    path: str, pattern: str
) -> None:
    # The plain translation needs years for each of these; in a process that is ended if this one does too.
    program = "import sys; from orchestrator.core.pathglob import matches_any; sys.exit(matches_any(sys.argv[1], [sys.argv[2]]))"
    subprocess.run([sys.executable, "-c", program, path, pattern], check=True, timeout=120)

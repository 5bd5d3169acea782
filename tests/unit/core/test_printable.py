"""Text of unknown origin is shown so that it can do nothing but be read."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.printable import printable

UNSHOWN = {"Cc", "Cf", "Zl", "Zp", "Cs", "Co", "Cn"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("src/a b/ü.py", "src/a b/ü.py"),
        ("\x1b]0;pwned\x07", "\\x1b]0;pwned\\x07"),
        ("\x9b2J", "\\x9b2J"),
        ("a\u202etxt", "a\\u202etxt"),
        ("a\u2028b\u2029c", "a\\u2028b\\u2029c"),
        ("zero\u200bwidth\ufeff", "zero\\u200bwidth\\ufeff"),
        ("\U000e0041", "\\U000e0041"),
        ("line\nfeed\r\ttab", "line\\x0afeed\\x0d\\x09tab"),
        ("\ud800", "\\ud800"),
    ],
)
def test_what_is_not_plainly_visible_is_shown_as_an_escape(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_text_of_several_lines_keeps_line_feeds_and_tabs_and_nothing_else() -> None:
    assert printable("a\n\tb\r\x1bc", lines=True) == "a\n\tb\\x0d\\x1bc"


def test_long_text_is_cut_with_its_length_and_never_longer_than_the_limit() -> None:
    assert printable("x" * 100, limit=40) == "x" * 20 + "... (100 characters)"
    assert len(printable("\x1b" * 39, limit=40)) <= 40


@given(st.text(st.characters()), st.integers(32, 200), st.booleans())
def test_no_text_at_all_gives_an_unseen_character_or_more_than_the_limit(
    text: str, limit: int, lines: bool
) -> None:
    shown = printable(text, limit=limit, lines=lines)
    assert len(shown) <= limit
    kept = "\n\t" if lines else ""
    assert all(unicodedata.category(c) not in UNSHOWN or c in kept for c in shown)
    shown.encode()


def test_without_a_limit_nothing_is_cut() -> None:
    assert printable("\x1b" * 5_000, limit=None) == "\\x1b" * 5_000

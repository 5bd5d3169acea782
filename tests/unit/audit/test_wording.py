"""Promise: of a report's text the figures, names and items are read as they stand, whatever is said around them."""

from __future__ import annotations

from typing import Any

import pytest

from orchestrator.audit.wording import _Names, _names_and_figures, figures, items


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("helped 3 of 4", ("3", "4")),
        ("helped -3", ("-3",)),
        ("helped \u22123", ("\u22123",)),
        ("1/1 and 2.5, 1,000", ("1", "1", "2.5", "1,000")),
        ("a share of .95", (".95",)),
        ("x5 better", ("x5",)),
        ("on x86_64, F2P of e1 under v1.95", ()),
        ("click-8 and 3-4", ("8", "3", "4")),
    ],
)
def test_a_figure_is_read_with_sign_point_and_factor(text, found):
    assert figures(text) == found


def test_an_item_is_one_line_however_it_was_wrapped():
    text = "Not shown:\n  - the first\n    goes on\n  - the second\n\n  and no item\n* the third\nnone\n"
    assert items(text) == {"the first goes on", "the second", "the third"}


NAMES = ("click-8", "click", "click/none/oracle/e1", "none", "oracle")


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("click-8 took 3 of 4 under none", ["click-8", "3", "4", "none"]),
        ("click/none/oracle/e1: 7", ["click/none/oracle/e1", "7"]),
        ("click/none/oracle/e12: 7", ["click", "none", "oracle", "7"]),
        ("nonesuch, x-click, click-88 and -5", ["88", "-5"]),
        ("2 by oracle, none", ["2", "oracle", "none"]),
        ("", []),
    ],
)
def test_of_a_line_the_longest_names_and_the_figures_between_them_are_told(line, found):
    assert list(_names_and_figures(line, _Names(NAMES))) == found


class _Looked(list[str]):
    looks = 0

    def __getitem__(self, at: Any) -> Any:
        self.looks += 1
        return super().__getitem__(at)


def test_neither_more_names_nor_a_longer_line_make_a_look_longer():
    words = _Looked(["click", "/"] * 10_000)
    for names in (NAMES, [f"click/none/oracle/e{number}" for number in range(5_000)]):
        words.looks = 0
        _Names(names).longest(words, 15_000)
        assert words.looks <= 3

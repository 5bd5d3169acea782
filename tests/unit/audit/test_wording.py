"""Promise: of a report's text the figures, names and items are read as they stand, whatever is said around them."""

from __future__ import annotations

import pytest

from orchestrator.audit.wording import figures, items


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

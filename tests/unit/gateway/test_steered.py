"""Promise: lines of files that steer agents are found in one pass, exactly where a search for each would find them."""

from __future__ import annotations

import random

import pytest

from orchestrator.gateway.steered import BEGINNING_CHARS, Steering

FILES = (
    ("CLAUDE.md", ("Always answer in halves, as the team decided.", "short one")),
    ("AGENTS.md", ("Always answer in halves, as the manager decided.", "é" * BEGINNING_CHARS)),
    (".cursorrules", ("Always answer in halves, as the team decided.",)),
    ("empty", ()),
)


def one_by_one(text: str) -> list[str]:
    return [path for path, lines in FILES if any(line in text for line in lines)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        ("Always answer in halves, as the team", []),
        ("> Always answer in halves, as the team decided.\n", ["CLAUDE.md", ".cursorrules"]),
        ("a short one", ["CLAUDE.md"]),
        ("x" + "é" * (BEGINNING_CHARS + 3), ["AGENTS.md"]),
        ("Always answer in halves, as the manager decided.", ["AGENTS.md"]),
    ],
)
def test_a_line_is_found_wherever_it_stands_and_for_every_file_that_has_it(text, found):
    assert Steering(FILES).in_text(text) == found == one_by_one(text)


def test_it_finds_what_a_search_for_each_line_finds():
    draw = random.Random(7)
    parts = [line[cut:] for _, lines in FILES for line in lines for cut in (0, 1)] + [" ", "é", "A"]
    for _ in range(500):
        text = "".join(draw.choices(parts, k=draw.randrange(6)))
        assert Steering(FILES).in_text(text) == one_by_one(text)


def test_a_checkout_without_such_files_is_not_searched():
    assert not Steering(())
    assert Steering(FILES)

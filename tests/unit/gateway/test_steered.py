"""Promise: lines of files that steer agents are found where a search for each would find them, in far fewer searches."""

from __future__ import annotations

import random
from typing import Any

import pytest

from orchestrator.gateway.steered import BLOCK_CHARS, CUT_CHARS, Steering

FILES = (
    ("CLAUDE.md", ("Always answer in halves, as the team decided.", "short one")),
    ("AGENTS.md", ("Always answer in halves, as the manager decided.", "é" * CUT_CHARS)),
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
        ("x" + "é" * (CUT_CHARS + 3), ["AGENTS.md"]),
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


@pytest.mark.parametrize("length", [CUT_CHARS - 1, CUT_CHARS])
@pytest.mark.parametrize("before", range(BLOCK_CHARS))
def test_a_line_is_found_wherever_it_stands_between_the_blocks(before, length):
    line = "abcdefghijklmnopqrstuvwxyz"[:length]
    assert Steering([("f", (line,))]).in_text("." * before + line + "..") == ["f"]


class Searched(str):
    """A text that counts how often it is cut, and searched for a line."""

    cuts = searches = 0

    def __getitem__(self, place: Any) -> str:
        self.cuts += 1
        return super().__getitem__(place)

    def __contains__(self, line: str) -> bool:  # type: ignore[override]
        self.searches += 1
        return super().__contains__(line)


def numbered(lines: int) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """A file of lines that all begin in the same way."""
    return (("f", tuple(f"{n:06} of the rules for all who work here" for n in range(lines))),)


@pytest.mark.parametrize("lines", [1, 1000])
def test_a_text_is_cut_into_blocks_once_however_many_lines_there_are(lines):
    text = Searched("Nothing of what the files say. " * 100)
    Steering(numbered(lines)).in_text(text)
    assert text.cuts <= len(text) // BLOCK_CHARS + 1


def test_a_text_that_holds_no_block_of_a_line_is_not_searched_for_it():
    text = Searched("Nothing of what the files say. " * 100)
    Steering(numbered(1000)).in_text(text)
    assert text.searches == 0


def test_a_text_is_searched_for_a_line_once_however_often_it_holds_a_part():
    text = Searched("000007 of the rules for all; " * 1000)
    Steering(numbered(1000)).in_text(text)
    assert text.searches <= 1000

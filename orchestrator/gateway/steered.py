"""Finds lines of known files in the strings of requests. Pure.

A string is cut into blocks once, and only a line of which a block was met is searched for, in the whole string: a
line of any file is looked for once at most, and of hundreds of files hardly ever.
"""

from __future__ import annotations

from collections.abc import Iterable

BLOCK_CHARS = 12
"""How long the blocks of a string are."""
CUT_CHARS = 2 * BLOCK_CHARS - 1
"""A line so long holds a whole block, wherever in a string it stands; a shorter one is looked for by itself."""


class Steering:
    """The lines of the checkout's files that steer agents."""

    def __init__(self, files: Iterable[tuple[str, tuple[str, ...]]]) -> None:
        """Takes files by path, each with its telling lines."""
        self._paths: list[str] = []
        self._files: dict[str, set[str]] = {}
        self._by_block: dict[str, set[str]] = {}
        self._short: set[str] = set()
        for path, lines in files:
            self._paths.append(path)
            for line in lines:
                self._files.setdefault(line, set()).add(path)
        for line in self._files:
            if len(line) < CUT_CHARS:
                self._short.add(line)
                continue
            for start in range(BLOCK_CHARS):
                block = line[start : start + BLOCK_CHARS]
                self._by_block.setdefault(block, set()).add(line)

    def __bool__(self) -> bool:
        return bool(self._paths)

    def in_text(self, text: str) -> list[str]:
        """Returns the files of which a line stands in a text, in their order."""
        blocks = (text[at : at + BLOCK_CHARS] for at in range(0, len(text), BLOCK_CHARS))
        met = [self._by_block[block] for block in set(filter(self._by_block.__contains__, blocks))]
        found: set[str] = set()
        for line in self._short.union(*met):
            if not self._files[line] <= found and line in text:
                found |= self._files[line]
        return [path for path in self._paths if path in found]

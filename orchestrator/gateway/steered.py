"""Finds lines of known files in the strings of requests: one pass over each string, however many lines there are. Pure."""

from __future__ import annotations

from collections.abc import Iterable

BEGINNING_CHARS = 12
"""By so many characters of its beginning a line is looked up; a shorter line is looked for by itself."""


class Steering:
    """The lines of the checkout's files that steer agents."""

    def __init__(self, files: Iterable[tuple[str, tuple[str, ...]]]) -> None:
        """Takes files by path, each with its telling lines."""
        self._paths: list[str] = []
        self._by_beginning: dict[str, dict[str, set[str]]] = {}
        self._short: dict[str, set[str]] = {}
        for path, lines in files:
            self._paths.append(path)
            for line in lines:
                if len(line) < BEGINNING_CHARS:
                    self._short.setdefault(line, set()).add(path)
                else:
                    known = self._by_beginning.setdefault(line[:BEGINNING_CHARS], {})
                    known.setdefault(line, set()).add(path)

    def __bool__(self) -> bool:
        return bool(self._paths)

    def in_text(self, text: str) -> list[str]:
        """Returns the files of which a line stands in a text, in their order."""
        found: set[str] = set()
        for line, paths in self._short.items():
            found |= paths if line in text else set()
        for start in range(len(text) - BEGINNING_CHARS + 1):
            known = self._by_beginning.get(text[start : start + BEGINNING_CHARS])
            for line, paths in known.items() if known else ():
                if not paths <= found and text.startswith(line, start):
                    found |= paths
        return [path for path in self._paths if path in found]

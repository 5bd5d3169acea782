"""Paths and path patterns as documents may hold them: relative, confined, nothing that a command mistakes.

Pure. These strings become arguments of test runners, entries of search paths and regular expressions.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, StringConstraints

MAX_PATH_CHARACTERS = 500
MAX_PARTS = 32


def _confined(path: str) -> str:
    parts = path.split("/")
    if path.startswith("-"):
        raise ValueError("a path starts with '-': a command would read it as an option")
    if len(parts) > MAX_PARTS or any(part in {"", ".", ".."} for part in parts):
        raise ValueError(
            f"not a plain relative path of at most {MAX_PARTS} parts, without '.', '..' and empty parts"
        )
    if not path.isprintable() or "\\" in path or ":" in path:
        raise ValueError("a path holds a backslash, a colon or an unseen character")
    return path


def _confined_or_here(path: str) -> str:
    return path if path == "." else _confined(path.removeprefix("./")) and path


_Bounded = Annotated[str, StringConstraints(min_length=1, max_length=MAX_PATH_CHARACTERS)]

RelativePath = Annotated[_Bounded, AfterValidator(_confined)]
"""A path below a folder."""

RelativePathOrHere = Annotated[_Bounded, AfterValidator(_confined_or_here)]
"""A path below a folder, with or without a leading `./`, or the folder itself as `.`."""

PathPattern = Annotated[_Bounded, AfterValidator(_confined)]
"""A pattern of core/pathglob.py over paths below a folder."""

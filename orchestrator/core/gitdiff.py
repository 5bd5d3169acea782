"""Reads from a git diff what changed: paths, modes, blob ids and the targets of new links. Pure.

The form is that of `git diff-tree -p --binary --full-index --no-renames` (git-diff(1)): no file's content can
pose as a header, because hunks are read by their counts and binary lines hold no blank.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

from orchestrator.core.gittree import object_id

LINK_MODE = "120000"
_HUNK = re.compile(rb"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_SIZE = re.compile(rb"(literal|delta) \d+")
_BEGIN = b"diff --git "
_ESCAPE = re.compile(rb"\\([0-7]{3}|.)")
_ESCAPES = dict(zip(b'abfnrtv"\\', b'\a\b\f\n\r\t\v"\\', strict=True))
_INDEX = re.compile(rb"index ([0-9a-f]{40})\.\.([0-9a-f]{40})(?: ([0-7]{6}))?")
_MODE = re.compile(rb"(old mode|new mode|deleted file mode|new file mode) ([0-7]{6})")


@dataclass(frozen=True, slots=True)
class PathChange:
    """One changed path. Modes are git's, null where the side is absent; what the diff does not tell is None."""

    path: str
    old_mode: str | None
    new_mode: str | None
    blob: str | None = None
    link_target: str | None = None

    @property
    def status(self) -> Literal["added", "modified", "deleted"]:
        """What became of the path."""
        return (
            "deleted" if self.new_mode is None else "added" if self.old_mode is None else "modified"
        )


@dataclass(slots=True)
class _Section:
    """What is read of one file's part of a diff; `old` and `new` are lines of the present hunk still to come.

    `last` is what the latest line of content is, `context` whether one did not change, `open_end` whether the new content ends without a newline.
    """

    path: str
    modes: dict[str, str] = field(default_factory=dict)
    index: tuple[str, str | None] | None = None
    content: list[bytes] = field(default_factory=list)
    binary: bool = False
    old: int = 0
    new: int = 0
    last: bytes = b""
    context: bool = False
    open_end: bool = False

    @property
    def in_hunk(self) -> bool:
        """Whether the next line is content, whatever it looks like."""
        return self.old > 0 or self.new > 0

    def take(self, line: bytes) -> None:
        """Reads one line that begins no other section."""
        if self.in_hunk:
            self._content(line)
        elif line and not self._header(line):
            raise ValueError("expected a line that git writes")

    def _content(self, line: bytes) -> None:
        kind = line[:1]
        if kind not in {b"+", b"-", b" ", b"\\"}:
            raise ValueError("expected a line of a hunk")
        if kind == b"\\":
            self._open_end()
            return
        self.last = kind
        self.context = self.context or kind == b" "
        self.old -= kind != b"+"
        self.new -= kind != b"-"
        if kind != b"-":
            self.content.append(line[1:])

    def _open_end(self) -> None:
        """A line with a backslash is of the line before it, and so of the side that that one is on."""
        self.open_end = self.open_end or self.last != b"-"

    def _header(self, line: bytes) -> bool:
        mode, index, hunk = _MODE.fullmatch(line), _INDEX.fullmatch(line), _HUNK.match(line)
        if mode:
            self.modes[mode[1].decode()] = mode[2].decode()
        elif index:
            self.index = (index[2].decode(), index[3].decode() if index[3] else None)
        elif hunk:
            self.old, self.new = int(hunk[1] or 1), int(hunk[2] or 1)
        elif line == b"GIT binary patch":
            self.binary = True
        else:
            data = self.binary and (b" " not in line or _SIZE.fullmatch(line) is not None)
            if line.startswith(b"\\ "):
                self._open_end()
            return data or line.startswith((b"--- ", b"+++ ", b"\\ "))
        return True

    def change(self) -> PathChange:
        """Returns what it says."""
        same = self.index[1] if self.index else None
        old = self.modes.get("old mode") or self.modes.get("deleted file mode") or same
        new = self.modes.get("new mode") or self.modes.get("new file mode") or same
        if "new file mode" in self.modes:
            old = None
        if "deleted file mode" in self.modes:
            new = None
        blob = self.index[0] if self.index and new is not None else None
        target = self._target(blob) if new == LINK_MODE else None
        return PathChange(
            path=self.path,
            old_mode=old,
            new_mode=new,
            blob=blob,
            link_target=target,
        )

    def _target(self, blob: str | None) -> str | None:
        """Returns what a link leads to; None where the diff does not show all of it, by the id of its content."""
        content = b"".join(line + b"\n" for line in self.content)
        content = content[:-1] if self.open_end else content
        if object_id("blob", content) != blob:
            # Lines that did not change may be left out; where none is shown, none was.
            if self.content and not self.context:
                raise ValueError(f"expected the content of link {self.path} to be its blob")
            return None
        return content.decode("utf-8", "backslashreplace")


def read_changes(diff: bytes) -> tuple[PathChange, ...]:
    """Returns the changes of a diff, in its order; a path that changes its type is one change.

    Raises:
        ValueError: a line that git does not write, or a path that comes twice.
    """
    found: dict[str, PathChange] = {}
    for section in _sections(diff):
        change = section.change()
        before = found.get(change.path)
        if before is not None:
            if before.status != "deleted" or change.status != "added":
                raise ValueError(f"{change.path} comes twice")
            change = replace(change, old_mode=before.old_mode)
        found[change.path] = change
    return tuple(found.values())


def _sections(diff: bytes) -> Iterator[_Section]:
    section: _Section | None = None
    for line in diff.split(b"\n"):
        if line.startswith(_BEGIN) and not (section and section.in_hunk):
            if section is not None:
                yield section
            section = _Section(_path_of(line.removeprefix(_BEGIN)))
        elif section is not None:
            section.take(line)
        elif line:
            raise ValueError("expected a header")
    if section is not None:
        yield section


def _path_of(names: bytes) -> str:
    """Returns the path of `a/PATH b/PATH`: without renames both are equal, so the middle is known."""
    half = (len(names) - 1) // 2
    old, new = names[:half], names[half + 1 :]
    if names[half : half + 1] != b" ":
        raise ValueError("expected one path twice")
    if names.startswith(b'"'):
        old, new = (_unquoted(name) for name in (old, new))
    if not old.startswith(b"a/") or not new.startswith(b"b/") or old[2:] != new[2:]:
        raise ValueError("expected one path twice")
    return old[2:].decode("utf-8")


def _unquoted(name: bytes) -> bytes:
    """Undoes the quotes that git puts around a name with odd bytes."""
    if len(name) < 2 or not name.startswith(b'"') or not name.endswith(b'"'):
        raise ValueError("expected a quoted name")
    return _ESCAPE.sub(_escaped, name[1:-1])


def _escaped(found: re.Match[bytes]) -> bytes:
    code = found[1]
    if len(code) == 3:
        return bytes([int(code, 8) & 0xFF])
    if code[0] not in _ESCAPES:
        raise ValueError("expected an escape that git writes")
    return bytes([_ESCAPES[code[0]]])

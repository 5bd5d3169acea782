"""Reads unified git diffs by their hunk counts, so that no line's content can pose as a header. Pure.

Format: git-diff(1), "Generating patch text with -p": `diff --git`, extended headers, `---`/`+++`, and
hunks `@@ -start,count +start,count @@`.
"""

from __future__ import annotations

import base64
import re

_HUNK = re.compile(rb"^@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_ESCAPES = {
    b"n": b"\n",
    b"t": b"\t",
    b"r": b"\r",
    b'"': b'"',
    b"\\": b"\\",
    b"a": b"\a",
    b"b": b"\b",
    b"f": b"\f",
    b"v": b"\v",
}


def added_lines(diff: bytes) -> list[bytes]:
    """Returns the content of every added line, without its `+`."""
    added: list[bytes] = []
    old = new = 0
    for line in diff.split(b"\n"):
        if old <= 0 and new <= 0:
            header = _HUNK.match(line)
            if header:
                old, new = int(header[1] or 1), int(header[2] or 1)
            continue
        kind = line[:1]
        if kind == b"+":
            added.append(line[1:])
            new -= 1
        elif kind == b"-":
            old -= 1
        elif kind != b"\\":
            old -= 1
            new -= 1
    return added


def touched_paths(patch: str) -> list[str]:
    """Returns every path that a patch's headers name, in order and once."""
    paths: list[str] = []
    old = new = 0
    for line in patch.encode().split(b"\n"):
        if old > 0 or new > 0:
            old -= line[:1] in {b"-", b" ", b""}
            new -= line[:1] in {b"+", b" ", b""}
            continue
        header = _HUNK.match(line)
        if header:
            old, new = int(header[1] or 1), int(header[2] or 1)
        for prefix in (
            b"--- a/",
            b"+++ b/",
            b'--- "a/',
            b'+++ "b/',
            b"rename from ",
            b"rename to ",
            b"copy to ",
        ):
            if line.startswith(prefix):
                path = _unquote(line[len(prefix) :], quoted=prefix.endswith((b'"a/', b'"b/')))
                if path not in paths:
                    paths.append(path)
    return paths


def _unquote(raw: bytes, *, quoted: bool) -> str:
    raw = raw.rstrip(b"\r")
    if quoted:
        raw = re.sub(
            rb"\\([0-7]{3}|.)",
            lambda m: bytes([int(m[1], 8)]) if len(m[1]) == 3 else _ESCAPES.get(m[1], m[1]),
            raw.rstrip(b'"'),
        )
    return raw.split(b"\t")[0].decode("utf-8", "replace")


def binary_parts(diff: bytes) -> list[bytes]:
    """Returns the compressed content of every binary file of a diff, decoded; broken parts are left out.

    Format: git-apply's binary patches: `literal N` or `delta N`, then lines of a length letter and base 85.
    """
    parts: list[bytes] = []
    current: list[bytes] | None = None
    for line in diff.split(b"\n"):
        if line.startswith((b"literal ", b"delta ")):
            current = []
        elif not line:
            if current:
                parts.append(b"".join(current))
            current = None
        elif current is not None:
            current.append(_base85_line(line))
    return parts


def _base85_line(line: bytes) -> bytes:
    letter = line[0]
    length = letter - 64 if letter <= 90 else letter - 70
    try:
        return base64.b85decode(line[1:])[: max(0, length)]
    except ValueError:
        return b""

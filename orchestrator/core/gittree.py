"""Git's object ids in pure Python, so that a reviewer can check a pinned tree without git.

Format: git's own object model (gitformat, "tree object"): entries `mode SP name NUL raw-id`, sorted by
name with a slash behind folder names. Pure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Mode = Literal["100644", "100755", "120000"]


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file (or symbolic link, whose data is its target) of a tree."""

    path: str
    mode: Mode
    data: bytes


def _object_id(kind: bytes, body: bytes) -> bytes:
    return hashlib.sha1(kind + b" %d\0" % len(body) + body, usedforsecurity=False).digest()


def blob_id(data: bytes) -> str:
    """Returns the id of a blob."""
    return _object_id(b"blob", data).hex()


def tree_id(entries: Iterable[FileEntry]) -> str:
    """Returns the id of the tree that holds the entries."""
    root: dict[str, object] = {}
    for entry in entries:
        *folders, name = entry.path.split("/")
        node = root
        for folder in folders:
            child = node.setdefault(folder, {})
            if not isinstance(child, dict):
                raise ValueError(f"{entry.path}: {folder} is a file and a folder")
            node = child
        node[name] = entry
    return _tree(root).hex()


def _tree(node: dict[str, object]) -> bytes:
    lines: list[tuple[bytes, bytes]] = []
    for name, child in node.items():
        raw = name.encode()
        if isinstance(child, FileEntry):
            lines.append((raw, child.mode.encode() + b" " + raw + b"\0" + _object_id(b"blob", child.data)))
        elif isinstance(child, dict):
            lines.append((raw + b"/", b"40000 " + raw + b"\0" + _tree(child)))
    return _object_id(b"tree", b"".join(line for _, line in sorted(lines)))

"""Git's object ids in pure Python, so that a reviewer can check a pinned tree without git.

Format: git's own object model (gitformat, "tree object"): entries `mode SP name NUL raw-id`, sorted by
name with a slash behind folder names. Pure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from orchestrator.core.errors import DocumentError

Mode = Literal["100644", "100755", "120000"]


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file (or symbolic link, whose data is its target) of a tree."""

    path: str
    mode: Mode
    data: bytes


@dataclass(frozen=True, slots=True)
class _Folder:
    children: dict[str, FileEntry | _Folder]


def object_id(kind: str, body: bytes) -> str:
    """Returns the id of an object: SHA-1 over `kind SP length NUL body`."""
    return _raw_id(kind, body).hex()


def blob_id(data: bytes) -> str:
    """Returns the id of a blob."""
    return object_id("blob", data)


def tree_id(entries: Iterable[FileEntry]) -> str:
    """Returns the id of the tree that holds the entries, in whatever order they come.

    Raises:
        DocumentError: a path occurs twice, or is a file and a folder.
    """
    root = _Folder({})
    for entry in entries:
        *folders, name = entry.path.split("/")
        node = root
        for folder in folders:
            child = node.children.setdefault(folder, _Folder({}))
            if isinstance(child, FileEntry):
                raise _clash(entry.path, f"{folder} as a file and a folder")
            node = child
        if name in node.children:
            raise _clash(entry.path, "it twice, or as a file and a folder")
        node.children[name] = entry
    return _tree(root).hex()


def _clash(path: str, found: str) -> DocumentError:
    return DocumentError(
        "tree-clash",
        f"{path}: expected each path once, found {found}",
        hint="remove one of the two files",
    )


def _raw_id(kind: str, body: bytes) -> bytes:
    return hashlib.sha1(f"{kind} {len(body)}\0".encode() + body, usedforsecurity=False).digest()


def _tree(node: _Folder) -> bytes:
    lines: list[tuple[bytes, bytes]] = []
    for name, child in node.children.items():
        raw = name.encode()
        if isinstance(child, FileEntry):
            lines.append(
                (raw, f"{child.mode} ".encode() + raw + b"\0" + _raw_id("blob", child.data))
            )
        else:
            lines.append((raw + b"/", b"40000 " + raw + b"\0" + _tree(child)))
    return _raw_id("tree", b"".join(line for _, line in sorted(lines)))

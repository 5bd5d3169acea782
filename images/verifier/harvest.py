"""The harvester: turns the work area into a diff against the pinned tree, after the agent's end.

Attached early with the work area read-only, it keeps the volume alive past the kill of the agent's
container. Walks with its own eyes (no link followed, `.git` never entered), hashes files itself in bounded
pieces and gives git nothing but blobs. Writes one line of JSON. Trusted; runs alone in its container.
"""

from __future__ import annotations

import base64
import hashlib
import os
import signal
import stat
import sys
import unicodedata
from pathlib import Path
from typing import Any

from frames import answer, read_frame
from plumbing import GitFailed, Repository

WORK = Path("/work")
MAX_NAME_BYTES = 200
MAX_PATH_BYTES = 1000
MAX_LEFT_OUT = 1000
PIECE_BYTES = 1 << 20
# What tools leave behind while an agent works. Never harvested, so code in them reaches no test.
BY_PRODUCTS = frozenset(
    {b"__pycache__", b".pytest_cache", b".mypy_cache", b".ruff_cache", b".hypothesis"}
)
UNSEEN = frozenset({"Cc", "Cf", "Zl", "Zp", "Cs", "Cn"})


class Walk:
    """Every path of the work area with its git mode, and what had to be left out.

    Args:
        pinned: the paths of the pinned tree; their names are good whatever they are.
    """

    def __init__(self, pinned: frozenset[str]) -> None:
        self.modes: dict[str, str] = {}
        self.left_out: list[dict[str, str]] = []
        self._pinned = pinned
        self._folders = frozenset(
            path[:at] for path in pinned for at in range(len(path)) if path[at] == "/"
        )

    def leave(self, name: bytes, reason: str) -> None:
        """Notes something that cannot be part of a diff."""
        if len(self.left_out) < MAX_LEFT_OUT:
            self.left_out.append(
                {"name": name.decode("utf-8", "backslashreplace")[:400] or "?", "reason": reason}
            )

    def folder(self, absolute: bytes, relative: bytes) -> None:
        """Walks one folder without following links."""
        for entry in sorted(os.scandir(absolute), key=lambda item: item.name):
            path = relative + b"/" + entry.name if relative else entry.name
            reason = self._unusable(entry.name, path)
            if reason is not None:
                # The pinned checkout's own .git at the top is ours and no news.
                if path != b".git":
                    self.leave(path, reason)
                continue
            found = entry.stat(follow_symlinks=False)
            if stat.S_ISDIR(found.st_mode):
                self.folder(entry.path, path)
            elif stat.S_ISLNK(found.st_mode):
                self.modes[path.decode()] = "120000"
            elif stat.S_ISREG(found.st_mode):
                self.modes[path.decode()] = "100755" if found.st_mode & 0o111 else "100644"
            else:
                self.leave(path, "special-file")

    def _unusable(self, name: bytes, path: bytes) -> str | None:
        folded = name.lower().rstrip(b". ")
        if folded == b".git" or folded.startswith((b".git:", b"git~")):
            return "git-folder"
        known = path.decode("utf-8", "surrogateescape")
        if known in self._pinned or known in self._folders:
            return None
        if name in BY_PRODUCTS or name.endswith(b".pyc"):
            return "by-product"
        return unusable(name, path)


def unusable(name: bytes, path: bytes) -> str | None:
    """Returns why a new name cannot be part of a diff, or None."""
    if len(name) > MAX_NAME_BYTES or len(path) > MAX_PATH_BYTES:
        return "name-too-long"
    try:
        text = name.decode("utf-8")
    except UnicodeDecodeError:
        return "name-not-utf8"
    if "\\" in text or any(unicodedata.category(character) in UNSEEN for character in text):
        return "name-not-portable"
    return None


class Reader:
    """Reads files in pieces, never more in all than the work area may hold twice over.

    A sparse file has any length and a hard link costs nothing: what a file system counts is no bound for
    what can be read from it.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._left = 2 * max_bytes

    def blob(self, path: bytes, mode: str, keep: Repository | None) -> tuple[str, int] | None:
        """Returns the git blob id and size of a file or link, stored if asked for; None if too large."""
        if mode == "120000":
            target = os.readlink(path)
            if keep is not None:
                keep.store_blob(target)
            head = b"blob %d\0" % len(target)
            return hashlib.sha1(head + target).hexdigest(), len(target)  # noqa: S324 - git's object format
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(handle, "rb") as stream:
            size = os.fstat(handle).st_size
            if size > self._max_bytes or size > self._left:
                return None
            self._left -= size
            if keep is not None:
                return keep.store_blob(stream.read(size)), size
            digest = hashlib.sha1(b"blob %d\0" % size)  # noqa: S324 - git's object format
            while piece := stream.read(PIECE_BYTES):
                digest.update(piece)
            return digest.hexdigest(), size


def changes_between(
    old: dict[str, tuple[str, str]], walk: Walk, repository: Repository, max_bytes: int
) -> list[dict[str, Any]]:
    """Stores the new blobs and lists every path that differs, sorted."""
    reader, keeper = Reader(max_bytes), Reader(max_bytes)
    changes: list[dict[str, Any]] = []
    for path in sorted({*old, *walk.modes}):
        before, mode = old.get(path), walk.modes.get(path)
        if mode is None:
            if before is not None:
                changes.append(change(path, before[0], None, None, 0))
            continue
        absolute = os.fsencode(WORK) + b"/" + os.fsencode(path)
        found = reader.blob(absolute, mode, None)
        if found is not None and before == (mode, found[0]):
            continue
        found = found and keeper.blob(absolute, mode, repository)
        if found is None:
            walk.leave(os.fsencode(path), "too-large")
            continue
        changes.append(change(path, before and before[0], mode, *found))
        if mode == "120000":
            changes[-1]["link_target"] = os.readlink(absolute).decode("utf-8", "backslashreplace")
    return changes


def change(
    path: str, old_mode: str | None, new_mode: str | None, blob: str | None, size: int
) -> dict[str, Any]:
    """Builds one entry of the change list."""
    status = "deleted" if new_mode is None else "modified" if old_mode else "added"
    return {
        "path": path,
        "status": status,
        "old_mode": old_mode,
        "new_mode": new_mode,
        "blob": blob,
        "bytes": size,
        "link_target": None,
    }


def new_tree(repository: Repository, pinned: str, changes: list[dict[str, Any]]) -> str:
    """Writes the tree that results from the changes."""
    repository.git("read-tree", pinned)
    # Deletions first: a folder may have become a file, or the other way round.
    lines = [f"0 {'0' * 40}\t{c['path']}\0" for c in changes if c["status"] == "deleted"]
    lines += [
        f"{c['new_mode']} {c['blob']}\t{c['path']}\0" for c in changes if c["status"] != "deleted"
    ]
    repository.git("update-index", "-z", "--index-info", data="".join(lines).encode())
    return repository.git("write-tree").decode("ascii").strip()


def harvest(pinned: str, max_diff_bytes: int, max_work_bytes: int) -> dict[str, Any]:
    """Reads the work area once and describes what changed."""
    repository = Repository(Path("/run/harvest/git"))
    old = repository.tree_entries(pinned)
    walk = Walk(frozenset(old))
    walk.folder(os.fsencode(WORK), b"")
    changes = changes_between(old, walk, repository, max_work_bytes)
    tree = new_tree(repository, pinned, changes)
    diff = repository.git(
        "diff-tree",
        "-r",
        "-p",
        "--binary",
        "--full-index",
        "--no-renames",
        "--no-ext-diff",
        "--no-textconv",
        "--no-color",
        "--src-prefix=a/",
        "--dst-prefix=b/",
        pinned,
        tree,
    )
    truncated = len(diff) > max_diff_bytes
    return {
        "tree": tree,
        "diff_base64": base64.b64encode(diff[:max_diff_bytes]).decode("ascii"),
        "diff_truncated": truncated,
        "changes": changes[:5000],
        "left_out": walk.left_out,
    }


def main() -> int:
    """Says that the volume is held, waits for the agent's end, then harvests once."""
    signal.alarm(int(sys.argv[1]))
    answer({"holding": True})
    frame = read_frame()
    try:
        limits = int(frame["max_diff_bytes"]), int(frame["max_work_bytes"])
        result = harvest(str(frame["pinned_tree"]), *limits)
    except (GitFailed, OSError, MemoryError, RecursionError) as error:
        answer({"failed": f"{type(error).__name__}: {error}"[:2000]})
        return 1
    answer(result)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

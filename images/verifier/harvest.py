"""The harvester: turns the work area into a diff against the pinned tree, after the agent's end.

Attached early with the work area read-only, it keeps the volume alive past the kill of the agent's
container. Walks with its own eyes (no link followed, `.git` never entered), hashes files itself and
gives git nothing but blobs. Writes one line of JSON. Trusted; runs alone in its container.
"""

from __future__ import annotations

import base64
import hashlib
import os
import signal
import stat
import sys
from pathlib import Path
from typing import Any

from frames import answer, read_frame
from plumbing import GitFailed, Repository

WORK = Path("/work")
MAX_NAME_BYTES = 200
MAX_PATH_BYTES = 1000


class Walk:
    """Every file of the work area as mode and bytes, and what had to be left out."""

    def __init__(self) -> None:
        self.files: dict[str, tuple[str, bytes]] = {}
        self.left_out: list[dict[str, str]] = []

    def leave(self, name: bytes, reason: str) -> None:
        """Notes something that cannot be part of a diff."""
        if len(self.left_out) < 1000:
            self.left_out.append(
                {"name": name.decode("utf-8", "backslashreplace")[:400] or "?", "reason": reason}
            )

    def folder(self, absolute: bytes, relative: bytes) -> None:
        """Walks one folder without following links."""
        for entry in sorted(os.scandir(absolute), key=lambda item: item.name):
            path = relative + b"/" + entry.name if relative else entry.name
            reason = unusable(entry.name, path)
            if reason is not None:
                # The pinned checkout's own .git at the top is ours and no news.
                if path != b".git":
                    self.leave(path, reason)
                continue
            found = entry.stat(follow_symlinks=False)
            if stat.S_ISDIR(found.st_mode):
                self.folder(entry.path, path)
            elif stat.S_ISLNK(found.st_mode):
                self.files[path.decode()] = ("120000", os.readlink(entry.path))
            elif stat.S_ISREG(found.st_mode):
                mode = "100755" if found.st_mode & 0o111 else "100644"
                self.files[path.decode()] = (mode, read_regular(entry.path))
            else:
                self.leave(path, "special-file")


def unusable(name: bytes, path: bytes) -> str | None:
    """Returns why a name cannot be part of a diff, or None."""
    folded = name.lower().rstrip(b". ")
    if folded == b".git" or folded.startswith((b".git:", b"git~")):
        return "git-folder"
    if len(name) > MAX_NAME_BYTES or len(path) > MAX_PATH_BYTES:
        return "name-too-long"
    try:
        text = name.decode("utf-8")
    except UnicodeDecodeError:
        return "name-not-utf8"
    if any(ord(character) < 32 or ord(character) == 127 for character in text) or "\\" in text:
        return "name-not-portable"
    return None


def read_regular(path: bytes) -> bytes:
    """Reads a regular file; a link that took its place is not followed."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(handle, "rb") as stream:
        return stream.read()


def changes_between(
    old: dict[str, tuple[str, str]], new: dict[str, tuple[str, bytes]], repository: Repository
) -> list[dict[str, Any]]:
    """Stores the new blobs and lists every path that differs, sorted."""
    changes: list[dict[str, Any]] = []
    for path in sorted(set(old) | set(new)):
        before = old.get(path)
        after = new.get(path)
        if after is None:
            if before is not None:
                changes.append(
                    change(path, "deleted", old_mode=before[0], new_mode=None, blob=None, data=b"")
                )
            continue
        mode, data = after
        blob = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()  # noqa: S324 - git's object format
        if before == (mode, blob):
            continue
        repository.store_blob(data)
        changes.append(
            change(
                path,
                "modified" if before else "added",
                old_mode=before[0] if before else None,
                new_mode=mode,
                blob=blob,
                data=data,
            )
        )
    return changes


def change(
    path: str,
    status: str,
    *,
    old_mode: str | None,
    new_mode: str | None,
    blob: str | None,
    data: bytes,
) -> dict[str, Any]:
    """Builds one entry of the change list."""
    target = data.decode("utf-8", "backslashreplace") if new_mode == "120000" else None
    return {
        "path": path,
        "status": status,
        "old_mode": old_mode,
        "new_mode": new_mode,
        "blob": blob,
        "bytes": len(data),
        "link_target": target,
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


def harvest(pinned: str, max_diff_bytes: int) -> dict[str, Any]:
    """Reads the work area once and describes what changed."""
    repository = Repository(Path("/run/harvest/git"))
    walk = Walk()
    walk.folder(os.fsencode(WORK), b"")
    changes = changes_between(repository.tree_entries(pinned), walk.files, repository)
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
        result = harvest(str(frame["pinned_tree"]), int(frame["max_diff_bytes"]))
    except (GitFailed, OSError, MemoryError, RecursionError) as error:
        answer({"failed": f"{type(error).__name__}: {error}"[:2000]})
        return 1
    answer(result)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

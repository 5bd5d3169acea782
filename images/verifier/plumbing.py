"""Git plumbing in a repository of our own: no work tree, no hooks, no attributes of the candidate.

Reads the objects of the pinned checkout through `alternates`; writes only below its own folder. The
candidate's `.git` is never opened, no candidate path is ever given to git as a file to read.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import zlib
from pathlib import Path

CHECKOUT_OBJECTS = "/opt/memtrial/checkout/.git/objects"
SAFE_CONFIG = (
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.autocrlf=false",
    "-c",
    "core.quotePath=true",
    "-c",
    "diff.external=",
    "-c",
    "safe.directory=*",
)


class Repository:
    """A bare repository with its own index."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("objects/info", "objects/pack", "refs", "info"):
            (folder / name).mkdir(parents=True)
        (folder / "HEAD").write_text("ref: refs/heads/none\n", encoding="ascii")
        (folder / "config").write_text(
            "[core]\n\tbare = true\n\trepositoryformatversion = 0\n", encoding="ascii"
        )
        (folder / "objects/info/alternates").write_text(CHECKOUT_OBJECTS + "\n", encoding="ascii")
        # Wins over any .gitattributes: text or binary is decided by content alone.
        (folder / "info/attributes").write_text(
            "* !diff !text !eol !filter !ident !working-tree-encoding !merge\n", encoding="ascii"
        )

    def git(self, *arguments: str, data: bytes | None = None) -> bytes:
        """Runs one git command; a failure ends the program with git's own words."""
        finished = subprocess.run(
            ["git", *SAFE_CONFIG, *arguments],
            input=data,
            capture_output=True,
            check=False,
            cwd=self.folder,
            env={
                "PATH": os.environ["PATH"],
                "HOME": "/nonexistent",
                "GIT_DIR": str(self.folder),
                "GIT_INDEX_FILE": str(self.folder / "index"),
                "GIT_CONFIG_NOSYSTEM": "1",
                "GIT_CONFIG_GLOBAL": "/dev/null",
                "GIT_ATTR_NOSYSTEM": "1",
                "GIT_NO_REPLACE_OBJECTS": "1",
                "LC_ALL": "C",
                "TZ": "UTC",
            },
        )
        if finished.returncode != 0:
            raise GitFailed(arguments[0], finished.stderr[-2000:].decode("utf-8", "replace"))
        return finished.stdout

    def store_blob(self, data: bytes) -> str:
        """Writes a loose blob and returns its id."""
        body = b"blob %d\0" % len(data) + data
        name = hashlib.sha1(body).hexdigest()  # noqa: S324 - git's object format
        path = self.folder / "objects" / name[:2] / name[2:]
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(zlib.compress(body, 1))
        return name

    def tree_entries(self, tree: str) -> dict[str, tuple[str, str]]:
        """Returns path -> (mode, blob id) of a tree."""
        entries: dict[str, tuple[str, str]] = {}
        for line in self.git("ls-tree", "-r", "-z", tree).split(b"\0"):
            if line:
                meta, _, path = line.partition(b"\t")
                mode, _, blob = meta.decode("ascii").split(" ")
                entries[path.decode("utf-8", "surrogateescape")] = (mode, blob)
        return entries


class GitFailed(Exception):
    """A git command failed."""

    def __init__(self, command: str, words: str) -> None:
        super().__init__(f"git {command}: {words}")

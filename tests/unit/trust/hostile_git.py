"""Real git repositories, and the ways to make them lie."""

from __future__ import annotations

import hashlib
import os
import struct
import subprocess
import zlib
from pathlib import Path

ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    **{
        f"GIT_{who}_{what}": "t@example"
        for who in ("AUTHOR", "COMMITTER")
        for what in ("NAME", "EMAIL")
    },
    "GIT_AUTHOR_DATE": "1700000000 +0000",
    "GIT_COMMITTER_DATE": "1700000000 +0000",
}


def git(folder: Path, *words: str) -> str:
    finished = subprocess.run(
        ["git", *words], cwd=folder, env=ENVIRONMENT, check=True, capture_output=True, text=True
    )
    return finished.stdout.strip()


def new_repository(folder: Path, files: dict[str, bytes]) -> tuple[str, str]:
    """Makes two commits on main, known as origin/main; returns both, the older first."""
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q", "-b", "main")
    (folder / "README").write_text("first\n")
    first = commit(folder, {})
    return first, commit(folder, files)


def commit(folder: Path, files: dict[str, bytes]) -> str:
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "--allow-empty", "-m", "commit")
    made = git(folder, "rev-parse", "HEAD")
    git(folder, "update-ref", "refs/remotes/origin/main", made)
    return made


def foreign_commit(folder: Path) -> str:
    """A commit that is in the object store and in no history."""
    tree = git(folder, "rev-parse", "HEAD^{tree}")
    return git(folder, "commit-tree", tree, "-m", "foreign")


def loose(folder: Path, oid: str) -> Path:
    return folder / ".git" / "objects" / oid[:2] / oid[2:]


def overwrite_blob(folder: Path, path: str, data: bytes) -> None:
    """Puts other bytes at the place of a blob of HEAD; its id, tree and commit stay."""
    place = loose(folder, git(folder, "rev-parse", f"HEAD:{path}"))
    place.chmod(0o644)
    place.write_bytes(zlib.compress(b"blob %d\0" % len(data) + data))


def forge_commit_graph(folder: Path, head: str, foreign: str) -> None:
    """Writes a commit-graph in which a foreign commit is the parent of HEAD."""
    git(folder, "branch", "ev", foreign)
    git(folder, "commit-graph", "write", "--reachable")
    path = folder / ".git" / "objects" / "info" / "commit-graph"
    path.chmod(0o644)
    data = bytearray(path.read_bytes())
    chunks = {}
    for number in range(data[6]):
        at = 8 + 12 * number
        chunks[bytes(data[at : at + 4])] = struct.unpack(">Q", data[at + 4 : at + 12])[0]
    count = struct.unpack(">I", data[chunks[b"OIDF"] + 255 * 4 : chunks[b"OIDF"] + 256 * 4])[0]
    at = chunks[b"OIDL"]
    ids = [data[at + 20 * i : at + 20 * i + 20].hex() for i in range(count)]
    struct.pack_into(">I", data, chunks[b"CDAT"] + 36 * ids.index(head) + 20, ids.index(foreign))
    data[-20:] = hashlib.sha1(bytes(data[:-20])).digest()
    path.write_bytes(data)
    git(folder, "branch", "-D", "ev")

"""Reads git objects and believes none of them: each is hashed again before it is used. The room's one process.

Calls `git cat-file --batch` and `git config --file` alone, by absolute path, with an environment that
holds nothing of the caller's. Git itself returns whatever lies at an object's place.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import IO, Self, cast

from orchestrator.core.errors import ApprovalRefused
from orchestrator.core.gittree import object_id
from orchestrator.core.waiting import readable

GIT = "/usr/bin/git"
# Trees, commits and documents of a trust root are small; anything larger is there to cost time.
MAX_OBJECT_BYTES = 4 * 1024 * 1024
MAX_HEAD_BYTES = 256
# For one object, and for one reading of a configuration.
TIMEOUT_S = 30.0
ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "LC_ALL": "C",
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_GRAFT_FILE": "/dev/null",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
}


class Objects:
    """The objects of one repository, each checked against its id."""

    def __init__(self, git_folder: Path) -> None:
        """Starts git over a repository.

        Raises:
            ApprovalRefused: there is no git at its fixed place.
        """
        command = (
            *(GIT, f"--git-dir={git_folder}", "--no-replace-objects"),
            *("-c", f"safe.directory={git_folder.parent}", "-c", "core.commitGraph=false"),
            *("-c", "core.fsmonitor=false", "cat-file", "--batch"),
        )
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=ENVIRONMENT,
                cwd="/",
            )
        except OSError as error:
            raise _refuse("git-missing", f"{GIT}", error.strerror or str(error)) from error
        # Both are pipes: Popen was asked for them.
        self._told = cast("IO[bytes]", self._process.stdin)
        self._said = cast("IO[bytes]", self._process.stdout)
        self._read = bytearray()

    def get(self, oid: str, kind: str) -> bytes:
        """Returns the body of an object.

        Raises:
            ApprovalRefused: missing, of another kind, too large, or not what its id says.
        """
        try:
            self._told.write(oid.encode() + b"\n")
            self._told.flush()
        except OSError as error:
            raise _refuse("git-failed", "git to answer", error.strerror or "its end") from error
        deadline_s = time.monotonic() + TIMEOUT_S
        head = self._line(deadline_s).split()
        if len(head) != 3 or head[0] != oid.encode() or not head[2].isdigit():
            raise _refuse("object-missing", f"object {oid}", b" ".join(head).decode("latin-1"))
        if head[1] != kind.encode() or len(head[2]) > 12 or int(head[2]) > MAX_OBJECT_BYTES:
            raise _refuse(
                "object-of-another-kind",
                f"a {kind} {oid[:12]} of at most {MAX_OBJECT_BYTES} bytes",
                f"{head[1]!r} of {head[2][:24]!r} bytes",
            )
        body = self._bytes(int(head[2]), deadline_s)
        self._bytes(1, deadline_s)
        if object_id(kind, body) != oid:
            raise _refuse(
                "object-not-its-id",
                f"the {kind} {oid}",
                f"bytes that hash to {object_id(kind, body)}",
            )
        return body

    def _line(self, deadline_s: float) -> bytes:
        while b"\n" not in self._read and len(self._read) <= MAX_HEAD_BYTES:
            self._more(deadline_s)
        line, _, rest = bytes(self._read).partition(b"\n")
        self._read = bytearray(rest)
        return line

    def _bytes(self, size: int, deadline_s: float) -> bytes:
        while len(self._read) < size:
            self._more(deadline_s)
        data = bytes(self._read[:size])
        del self._read[:size]
        return data

    def _more(self, deadline_s: float) -> None:
        """Reads on. Git itself can be made to wait for ever, by a pipe in an object's place."""
        if not readable(self._said, deadline_s - time.monotonic()):
            raise _refuse("git-failed", f"an answer within {TIMEOUT_S:.0f} s", "none")
        piece = os.read(self._said.fileno(), 1 << 20)
        if not piece:
            raise _refuse("git-failed", "git to answer", "its end")
        self._read += piece

    def close(self) -> None:
        """Ends git."""
        self._process.kill()
        self._process.wait()
        self._said.close()
        # What git was still to be told has no reader any more.
        with contextlib.suppress(OSError):
            self._told.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def config_names(path: Path) -> tuple[tuple[str, str], ...]:
    """Returns names (in lower case) and values of a repository's own configuration file, includes left alone.

    Raises:
        ApprovalRefused: git cannot read it.
    """
    command = (GIT, "config", "--file", str(path), "--no-includes", "--list", "-z")
    try:
        finished = subprocess.run(
            command,
            env=ENVIRONMENT,
            cwd="/",
            capture_output=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _refuse("git-failed", "git to read the configuration", str(error)) from error
    if finished.returncode:
        told = finished.stderr.decode("utf-8", "replace")[:200]
        raise _refuse("repository-config", "a configuration that git reads", told)
    pairs = []
    for item in finished.stdout.decode("utf-8", "replace").split("\0"):
        name, _, value = item.partition("\n")
        if name:
            pairs.append((name.lower(), value))
    return tuple(pairs)


def _refuse(reference: str, expected: str, found: str) -> ApprovalRefused:
    return ApprovalRefused(
        reference,
        f"repository: expected {expected}, found {found}",
        hint="clone the repository again from its source and compare",
    )

"""Append-only lines, each carrying the digest of the line before; many waiters share one sync to disk.

Reads and writes one file, which one process may hold. A torn last line is cut off when the file is
opened again; any other difference is an integrity error.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Generic, Protocol, TypeVar

from orchestrator.core.canonical import sha256_hex
from orchestrator.core.errors import IntegrityError, UsageError
from orchestrator.core.files import sync_folder
from orchestrator.model.base import Document

GENESIS_SHA256 = "0" * 64


class Line(Protocol):
    """What every line has."""

    @property
    def seq(self) -> int:
        """Its number, from 0."""

    @property
    def prev_sha256(self) -> str:
        """Digest of the bytes of the line before."""


L = TypeVar("L", bound=Document)


@dataclass(frozen=True, slots=True)
class Lines(Generic[L]):
    """The whole lines of a log, the digest of the last one, and how many torn bytes stand behind it."""

    lines: list[L]
    head_sha256: str
    torn_bytes: int


def parse_lines(data: bytes, kind: type[L], *, where: str) -> Lines[L]:
    """Reads and verifies the bytes of a log.

    Raises:
        IntegrityError: a line is not canonical, out of sequence, or does not follow the one before.
        DocumentError: a whole line is not what it should be.
    """
    whole, _, torn = data.rpartition(b"\n")
    lines: list[L] = []
    head = GENESIS_SHA256
    for number, raw in enumerate(whole.split(b"\n") if whole else []):
        line: Any = kind.parse(raw, where=f"{where} line {number + 1}")
        if line.canonical() != raw or line.seq != number or line.prev_sha256 != head:
            raise IntegrityError(
                "log-broken",
                f"{where} line {number + 1}: expected line {number} after {head[:16]}, found line {line.seq} after {line.prev_sha256[:16]} or bytes that are not canonical",
                hint="the record was changed after the fact: restore it from a copy",
            )
        lines.append(line)
        head = sha256_hex(raw)
    return Lines(lines, head, len(torn))


def read_lines(path: Path, kind: type[L]) -> tuple[list[L], str, int]:
    """Reads and verifies a log file, as `parse_lines` does; returns the parts of its answer."""
    found = parse_lines(path.read_bytes(), kind, where=str(path))
    return found.lines, found.head_sha256, found.torn_bytes


class ChainedLog(Generic[L]):
    """An open log, for the one event loop that appends to it."""

    def __init__(self, path: Path, kind: type[L]) -> None:
        """Opens or makes the file, verifies it, and cuts a torn tail off.

        Raises:
            UsageError: another process has it open.
            IntegrityError: it was changed.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        self._kind = kind
        self._handle: IO[bytes] = path.open("a+b")
        try:
            lock(self._handle, path)
            self.lines, self._head, torn = read_lines(path, kind)
            if torn:
                self._handle.truncate(path.stat().st_size - torn)
        except BaseException:
            self._handle.close()
            raise
        sync_folder(path.parent)
        self._seq = len(self.lines)
        self._synced = self._seq
        self._syncing = asyncio.Lock()

    def append(self, body: Document | Any) -> str:
        """Writes one line; it is safe from a crash once `sync` returned. Returns its digest."""
        line = self._kind.model_validate(
            {"seq": self._seq, "prev_sha256": self._head, "body": body}
        ).canonical()
        self._handle.write(line + b"\n")
        self._seq += 1
        self._head = sha256_hex(line)
        return self._head

    async def sync(self) -> None:
        """Returns when everything appended so far is on disk. Concurrent callers share one sync."""
        wanted = self._seq
        async with self._syncing:
            if self._synced >= wanted:
                return
            reached = self._seq
            self._handle.flush()
            await asyncio.to_thread(os.fdatasync, self._handle.fileno())
            self._synced = reached

    def flush(self) -> None:
        """Hands everything appended so far to the operating system."""
        self._handle.flush()

    def close(self) -> None:
        """Syncs, closes and lets go of the lock."""
        self._handle.flush()
        os.fsync(self._handle.fileno())
        self._handle.close()


def lock(handle: IO[bytes], path: Path) -> None:
    """Takes the file for this process.

    Raises:
        UsageError: another process has it.
    """
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise UsageError(
            "gateway-active",
            f"{path}: expected a file that no gateway holds, found it held by another process",
            hint="end the other gateway, or give this one a folder and a socket of its own",
        ) from error

"""The record ledger: one canonical JSON line per fact, each carrying the digest of the line before.

Appends are synced before they count. A torn last line (power loss, kill) is told apart from tampering:
only bytes after the last newline can be torn, and only `open_for_append(repair=True)` cuts them off.
"""

from __future__ import annotations

import fcntl
import os
import threading
from pathlib import Path
from typing import IO

from orchestrator.core.canonical import sha256_hex
from orchestrator.core.clock import utc_now_text
from orchestrator.core.errors import IntegrityError, UsageError
from orchestrator.core.files import sync_folder
from orchestrator.model.record import Body, LedgerEntry

GENESIS_SHA256 = "0" * 64


def read_entries(path: Path) -> tuple[list[LedgerEntry], str, int]:
    """Reads and verifies a ledger.

    Returns:
        The entries, the digest of the last whole line, and the number of torn bytes after it.

    Raises:
        IntegrityError: a line is not canonical, out of sequence or does not follow the one before it.
        DocumentError: a whole line is not a ledger entry.
    """
    data = path.read_bytes()
    whole, _, torn = data.rpartition(b"\n")
    entries: list[LedgerEntry] = []
    head = GENESIS_SHA256
    for number, line in enumerate(whole.split(b"\n") if whole else []):
        entry = LedgerEntry.parse(line, where=f"{path.name} line {number + 1}")
        if entry.canonical() != line or entry.seq != number or entry.prev_sha256 != head:
            raise IntegrityError(
                "ledger-broken",
                f"{path} line {number + 1}: expected entry {number} after {head[:16]}, found entry {entry.seq} after {entry.prev_sha256[:16]} or bytes that are not canonical",
                hint="the record was changed after the fact: restore it from a copy",
            )
        entries.append(entry)
        head = sha256_hex(line)
    return entries, head, len(torn)


class Ledger:
    """An open ledger. One process at a time; threads of it may append together."""

    def __init__(self, handle: IO[bytes], seq: int, head: str) -> None:
        self._handle = handle
        self._lock = threading.Lock()
        self._seq = seq
        self._head = head

    @classmethod
    def create(cls, path: Path) -> Ledger:
        """Makes a new ledger; the name must be free."""
        handle = path.open("xb")
        _lock(handle, path)
        sync_folder(path.parent)
        return cls(handle, 0, GENESIS_SHA256)

    @classmethod
    def open_for_append(
        cls, path: Path, *, repair: bool = False
    ) -> tuple[Ledger, list[LedgerEntry], int]:
        """Opens an existing ledger after verifying all of it.

        Returns:
            The ledger, its entries, and how many torn bytes were cut off.

        Raises:
            UsageError: another process has it open.
            IntegrityError: it is broken, or torn and `repair` was not asked for.
        """
        handle = path.open("r+b")
        try:
            _lock(handle, path)
            entries, head, torn = read_entries(path)
            _check_torn(path, torn, repair=repair)
            if torn:
                handle.truncate(path.stat().st_size - torn)
                os.fsync(handle.fileno())
            handle.seek(0, os.SEEK_END)
        except BaseException:
            handle.close()
            raise
        return cls(handle, len(entries), head), entries, torn

    def append(self, body: Body) -> None:
        """Writes one entry and syncs it; it counts once this returns."""
        with self._lock:
            entry = LedgerEntry(seq=self._seq, prev_sha256=self._head, at=utc_now_text(), body=body)
            line = entry.canonical()
            self._handle.write(line + b"\n")
            self._handle.flush()
            os.fsync(self._handle.fileno())
            self._seq += 1
            self._head = sha256_hex(line)

    def close(self) -> None:
        """Closes the file and lets go of the lock."""
        self._handle.close()


def _check_torn(path: Path, torn: int, *, repair: bool) -> None:
    if torn and not repair:
        raise IntegrityError(
            "ledger-torn",
            f"{path}: expected whole lines, found {torn} bytes of an unfinished one",
            hint="run `memtrial resume` to repair it",
        )


def _lock(handle: IO[bytes], path: Path) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        handle.close()
        raise UsageError(
            "run-active",
            f"{path.parent.name}: expected a run that nobody works on, found it open in another process",
            hint="wait for the other process, or end it",
        ) from error

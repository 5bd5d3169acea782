"""The record ledger: one canonical JSON line per fact, each carrying the digest of the line before.

Appends are synced before they count. A torn last line (power loss, kill) is told apart from tampering:
only bytes after the last newline can be torn, and only `open_for_append(repair=True)` cuts them off.
The lines are the leaves of a Merkle tree, whose root a signed checkpoint states.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from orchestrator.core.canonical import sha256_hex
from orchestrator.core.clock import utc_now_text
from orchestrator.core.errors import IntegrityError, UsageError
from orchestrator.core.files import sync_folder
from orchestrator.core.merkle import MerkleTree, leaf_hash
from orchestrator.model.record import Body, LedgerEntry

GENESIS_SHA256 = "0" * 64
MAX_LINE_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Prefix:
    """The first lines of a ledger as a verified checkpoint states them."""

    size: int
    root: bytes


@dataclass(frozen=True, slots=True)
class LedgerContent:
    """A ledger as read: entries, the raw lines behind them, the tree over those, and torn bytes."""

    entries: list[LedgerEntry]
    lines: list[bytes]
    tree: MerkleTree
    torn_bytes: int

    @property
    def head_sha256(self) -> str:
        """Digest of the last whole line."""
        return sha256_hex(self.lines[-1]) if self.lines else GENESIS_SHA256


def parse_ledger(data: bytes, *, where: str, signed: Prefix | None = None) -> LedgerContent:
    """Verifies the bytes of a ledger.

    Args:
        data: all bytes of the file.
        where: name of the file for the error text.
        signed: what a verified checkpoint says; lines below it are compared by the tree's root, which
            covers every byte of theirs, and only lines above it are checked one by one.

    Raises:
        IntegrityError: a line is out of sequence or does not follow the one before it, or the lines
            are not the ones that were signed.
        DocumentError: a whole line is not a ledger entry, or not its canonical bytes.
    """
    whole, _, torn = data.rpartition(b"\n")
    lines = whole.split(b"\n") if whole or data.startswith(b"\n") else []
    tree = MerkleTree(leaf_hash(line) for line in lines)
    if signed is not None and (signed.size > tree.size or tree.root(signed.size) != signed.root):
        raise IntegrityError(
            "ledger-not-the-signed-one",
            f"{where}: expected {signed.size} lines with root {signed.root.hex()[:16]}, found {tree.size} lines that do not give it",
            hint="the record was changed after it was signed: restore it from a copy",
        )
    entries: list[LedgerEntry] = []
    head = GENESIS_SHA256
    for number, line in enumerate(lines):
        place = f"{where} line {number + 1}"
        if signed is not None and number < signed.size:
            entries.append(LedgerEntry.model_validate_json(line))
            head = sha256_hex(line) if number + 1 == signed.size else head
            continue
        entry = LedgerEntry.parse_canonical(line, where=place, max_bytes=MAX_LINE_BYTES)
        if entry.seq != number or entry.prev_sha256 != head:
            raise IntegrityError(
                "ledger-broken",
                f"{place}: expected entry {number} after {head[:16]}, found entry {entry.seq} after {entry.prev_sha256[:16]}",
                hint="the record was changed after the fact: restore it from a copy",
            )
        entries.append(entry)
        head = sha256_hex(line)
    return LedgerContent(entries, lines, tree, len(torn))


def read_entries(path: Path) -> tuple[list[LedgerEntry], str, int]:
    """Reads and verifies a ledger.

    Returns:
        The entries, the digest of the last whole line, and the number of torn bytes after it.

    Raises:
        IntegrityError: a line is out of sequence or does not follow the one before it.
        DocumentError: a whole line is not a ledger entry, or not its canonical bytes.
    """
    content = parse_ledger(path.read_bytes(), where=path.name)
    return content.entries, content.head_sha256, content.torn_bytes


class Ledger:
    """An open ledger. One process at a time; threads of it may append together."""

    def __init__(self, handle: IO[bytes], tree: MerkleTree, head: str, size_bytes: int) -> None:
        self._handle = handle
        self._lock = threading.Lock()
        self._tree = tree
        self._head = head
        self._size_bytes = size_bytes
        self._broken = False

    @classmethod
    def create(cls, path: Path) -> Ledger:
        """Makes a new ledger; the name must be free."""
        handle = path.open("xb", buffering=0)
        _lock(handle, path)
        sync_folder(path.parent)
        return cls(handle, MerkleTree(), GENESIS_SHA256, 0)

    @classmethod
    def open_for_append(
        cls, path: Path, *, repair: bool = False, signed: Prefix | None = None
    ) -> tuple[Ledger, list[LedgerEntry], int]:
        """Opens an existing ledger after verifying it, from the signed prefix on if one is given.

        Returns:
            The ledger, its entries, and how many torn bytes were cut off.

        Raises:
            UsageError: another process has it open.
            IntegrityError: it is broken, or torn and `repair` was not asked for.
        """
        handle = path.open("r+b", buffering=0)
        try:
            _lock(handle, path)
            data = path.read_bytes()
            content = parse_ledger(data, where=path.name, signed=signed)
            _check_torn(path, content.torn_bytes, repair=repair)
            size_bytes = len(data) - content.torn_bytes
            if content.torn_bytes:
                handle.truncate(size_bytes)
                os.fsync(handle.fileno())
            handle.seek(0, os.SEEK_END)
        except BaseException:
            handle.close()
            raise
        ledger = cls(handle, content.tree, content.head_sha256, size_bytes)
        return ledger, content.entries, content.torn_bytes

    def append(self, body: Body) -> None:
        """Writes one entry and syncs it; it counts once this returns.

        Raises:
            IntegrityError: an earlier append failed and could not be undone; reopen with `resume`.
        """
        with self._lock:
            if self._broken:
                raise IntegrityError(
                    "ledger-needs-repair",
                    "expected a ledger that ends in a whole line, found one whose last write failed",
                    hint="make room on the disk, then run `memtrial resume`",
                )
            entry = LedgerEntry(
                seq=self._tree.size, prev_sha256=self._head, at=utc_now_text(), body=body
            )
            line = entry.canonical()
            self._write(line + b"\n")
            self._tree.append(leaf_hash(line))
            self._head = sha256_hex(line)

    def _write(self, data: bytes) -> None:
        """Writes and syncs, or leaves the file as it was; a half-written line never stays silently."""
        self._broken = True
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[self._handle.write(rest) :]
            os.fsync(self._handle.fileno())
        except OSError:
            self._handle.truncate(self._size_bytes)
            self._handle.seek(self._size_bytes)
            os.fsync(self._handle.fileno())
            self._broken = False
            raise
        self._size_bytes += len(data)
        self._broken = False

    def close(self) -> None:
        """Closes the file and lets go of the lock."""
        self._handle.close()


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Holds a ledger's lock without writing to it, so that nobody appends meanwhile.

    Raises:
        UsageError: another process has it open.
    """
    with path.open("rb") as handle:
        _lock(handle, path)
        yield


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

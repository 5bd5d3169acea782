"""The nonce book: an approval is used once, by one run, and the use is on disk before anything is dispatched.

Writes `nonces.jsonl` (hash chain, one line a reservation) and `nonces.head` (how far it had come). One
process at a time under a lock; a crash after the reservation leaves the nonce used.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from orchestrator.core.canonical import sha256_hex
from orchestrator.core.clock import utc_text_of
from orchestrator.core.errors import ApprovalRefused, DocumentError
from orchestrator.core.files import sync_folder, write_atomic
from orchestrator.model.nonce import NonceHead, NonceLine

BOOK = "nonces.jsonl"
HEAD = "nonces.head"
ZEROS = "0" * 64
# What stands for the run where there is none yet: no run can have this id, so nothing is ever used for it.
NO_RUN = "-"
MAX_BOOK_BYTES = 64 * 1024 * 1024
# Clocks of one machine agree to the second; more is a clock that was set back.
MAX_BACK_S = 1


@dataclass(frozen=True, slots=True)
class Use:
    """What a reservation binds: the nonce of an approval to the run that it is for."""

    nonce: str
    approval_sha256: str
    plan_sha256: str
    run_id: str


@dataclass(frozen=True, slots=True)
class BookState:
    """The book as read: its lines, how many its head knows of, and the latest time in seconds since 1970."""

    lines: tuple[NonceLine, ...]
    last_sha256: str
    headed: int | None
    high_water_s: int

    def use_of(self, nonce: str) -> NonceLine | None:
        """Returns the line that used a nonce."""
        return next((line for line in self.lines if line.nonce == nonce), None)


class NonceBook:
    """The book of one folder. Nothing is held between calls."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def state(self) -> BookState:
        """Reads and checks the book; a book that is not there yet is empty.

        Raises:
            ApprovalRefused: torn, changed, reordered, cut, or gone although it was begun.
        """
        with self._found() as handle:
            return self._read(handle)

    def check(self, use: Use, *, now_s: int) -> BookState:
        """Refuses what `reserve` would refuse; reserves nothing.

        Raises:
            ApprovalRefused: the nonce is used by another run, the run has another approval, or the clock was
                set back.
        """
        with self._found() as handle:
            state = self._read(handle)
            _admit(state, use, now_s)
            return state

    def reserve(self, use: Use, *, now_s: int) -> NonceLine:
        """Writes the use down, durably, before it returns; the same run may come again.

        Args:
            use: what is reserved.
            now_s: the present time in seconds since 1970.

        Raises:
            ApprovalRefused: the nonce is used by another run, the run has another approval, the clock was
                set back, or the book is not whole.
        """
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._opened(os.O_RDWR | os.O_CREAT | os.O_APPEND) as handle:
            state = self._read(handle)
            used = _admit(state, use, now_s)
            if used is not None:
                return used
            line = NonceLine(
                seq=len(state.lines),
                prev_sha256=state.last_sha256,
                at_s=max(now_s, state.high_water_s),
                nonce=use.nonce,
                approval_sha256=use.approval_sha256,
                plan_sha256=use.plan_sha256,
                run_id=use.run_id,
            )
            if state.headed != line.seq:
                # Before the line: a book with lines has a head, which is one line behind it and never two.
                head = NonceHead(
                    size=line.seq,
                    last_sha256=state.last_sha256,
                    high_water_s=state.high_water_s,
                )
                try:
                    self._write_head(head)
                except OSError as error:
                    raise _not_written(self._folder / HEAD, error.strerror or str(error)) from error
            self._append(handle, line.canonical() + b"\n")
            # The use is on disk, so a head that cannot be written refuses nothing: the next use begins with it.
            with suppress(OSError):
                self._write_head(
                    NonceHead(
                        size=line.seq + 1, last_sha256=line.digest_sha256(), high_water_s=line.at_s
                    )
                )
            return line

    def _append(self, handle: int, data: bytes) -> None:
        """Writes a line whole and durably, or leaves the book as it was."""
        before = os.fstat(handle).st_size
        try:
            whole = os.write(handle, data) == len(data)
            os.fsync(handle)
            sync_folder(self._folder)
        except OSError as error:
            os.ftruncate(handle, before)
            raise _not_written(self._folder / BOOK, error.strerror or str(error)) from error
        if not whole:
            os.ftruncate(handle, before)
            raise _not_written(self._folder / BOOK, "room for a part of it")

    def _write_head(self, head: NonceHead) -> None:
        write_atomic(self._folder / HEAD, head.canonical(), mode=0o600)

    @contextmanager
    def _found(self) -> Iterator[int | None]:
        """Opens and locks the book to be read; None where there is none."""
        path = self._folder / BOOK
        if not path.exists() and not path.is_symlink():
            yield None
            return
        with self._opened(os.O_RDONLY) as handle:
            yield handle

    @contextmanager
    def _opened(self, flags: int) -> Iterator[int]:
        """Opens and locks the book."""
        path = self._folder / BOOK
        try:
            handle = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
        except OSError as error:
            raise _broken(path, "a regular file", error.strerror or str(error)) from error
        try:
            found = os.fstat(handle)
            if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1 or found.st_mode & 0o077:
                raise _broken(
                    path, "a regular file of mode 0600 with one name", stat.filemode(found.st_mode)
                )
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield handle
        finally:
            os.close(handle)

    def _read(self, handle: int | None) -> BookState:
        data = b"" if handle is None else os.pread(handle, MAX_BOOK_BYTES + 1, 0)
        *whole, torn = data.split(b"\n")
        if torn or len(data) > MAX_BOOK_BYTES:
            raise _torn(self._folder / BOOK, len(data) - len(torn), len(torn))
        lines: list[NonceLine] = []
        last = ZEROS
        for number, raw in enumerate(whole):
            line = self._line(raw, number)
            if line.seq != number or line.prev_sha256 != last:
                raise _broken(
                    self._folder / BOOK, f"line {number} after {last[:16]}", f"line {line.seq}"
                )
            last = sha256_hex(raw)
            lines.append(line)
        head = self._check_head(lines, last)
        latest = max((line.at_s for line in lines), default=0)
        return BookState(
            tuple(lines),
            last,
            head.size if head else None,
            max(latest, head.high_water_s) if head else latest,
        )

    def _line(self, raw: bytes, number: int) -> NonceLine:
        try:
            return NonceLine.parse_canonical(raw, where=f"{BOOK}, line {number}")
        except DocumentError as error:
            raise _broken(self._folder / BOOK, "canonical lines", error.message) from error

    def _check_head(self, lines: list[NonceLine], last: str) -> NonceHead | None:
        """Compares the book with how far it had come; it may be one line ahead of that after a crash."""
        path = self._folder / HEAD
        if not path.exists():
            if lines:
                raise _broken(path, f"the head of a book of {len(lines)} lines", "none")
            return None
        try:
            head = NonceHead.parse_canonical(path.read_bytes(), where=HEAD)
        except DocumentError as error:
            raise _broken(path, "a head", error.message) from error
        digests = [ZEROS, *(line.prev_sha256 for line in lines[1:]), last]
        if head.size > len(lines) or digests[head.size] != head.last_sha256:
            raise _broken(
                self._folder / BOOK, f"at least the {head.size} lines of its head", f"{len(lines)}"
            )
        if len(lines) > head.size + 1:
            raise _broken(path, f"a head at most one line behind {len(lines)}", f"{head.size}")
        return head


def _admit(state: BookState, use: Use, now_s: int) -> NonceLine | None:
    """Returns the line of the same run, None for a fresh nonce, and refuses anything else."""
    if now_s + MAX_BACK_S < state.high_water_s:
        raise ApprovalRefused(
            "clock-set-back",
            f"expected a clock at or after {utc_text_of(state.high_water_s)}, the last use of an approval, found {utc_text_of(now_s)}",
            hint="set the machine's clock right",
        )
    used = state.use_of(use.nonce)
    if used is None:
        if any(line.run_id == use.run_id for line in state.lines):
            raise ApprovalRefused(
                "run-has-another-approval",
                f"expected a run that no approval was used for yet, found that {use.run_id} began under another one",
                hint="a run has one approval: dispatch a new run",
            )
        return None
    same = (used.approval_sha256, used.plan_sha256, used.run_id)
    if same != (use.approval_sha256, use.plan_sha256, use.run_id):
        raise ApprovalRefused(
            "nonce-used",
            f"expected an approval that was not used yet, found it used by run {used.run_id}",
            hint=f"`memtrial resume {used.run_id}` goes on with that run; another run needs another approval",
        )
    return used


def _torn(path: Path, whole_bytes: int, torn_bytes: int) -> ApprovalRefused:
    return ApprovalRefused(
        "nonce-book-broken",
        f"{path.name}: expected whole lines, found {torn_bytes} bytes of a torn one after {whole_bytes}",
        hint=f"nothing is dispatched before its line is whole: if the machine failed while it was written, cut it with `truncate -s {whole_bytes} {path}`",
    )


def _not_written(path: Path, found: str) -> ApprovalRefused:
    return ApprovalRefused(
        "nonce-book-not-written",
        f"{path}: expected to write a line, found {found}; the book is as it was and nothing was used up",
        hint="make room on that disk, then dispatch again",
    )


def _broken(place: Path, expected: str, found: str) -> ApprovalRefused:
    return ApprovalRefused(
        "nonce-book-broken",
        f"{place.name}: expected {expected}, found {found}",
        hint="restore the nonce book from a copy; until then nothing is dispatched",
    )

"""Promise: an approval is used once, whoever races for it, and a use that was written down stays used."""

from __future__ import annotations

import errno
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pydantic import ValidationError

from orchestrator.core.errors import ApprovalRefused
from orchestrator.model.nonce import NonceHead
from orchestrator.trust import nonces
from orchestrator.trust.nonces import BOOK, HEAD, MAX_BACK_S, NO_RUN, NonceBook, Use

NOW_S = 1_800_000_000
ROOT = Path(__file__).resolve().parents[3]


def use(number: int, run: str | None = None) -> Use:
    return Use(f"{number:064x}", "a" * 64, "b" * 64, run or f"run-{number}")


def refusal(folder: Path, wanted: Use, now_s: int = NOW_S) -> str:
    with pytest.raises(ApprovalRefused) as refused:
        NonceBook(folder).reserve(wanted, now_s=now_s)
    return refused.value.reference


@pytest.fixture
def book(tmp_path: Path) -> Path:
    for number in range(4):
        NonceBook(tmp_path).reserve(use(number), now_s=NOW_S + number)
    return tmp_path


def _race(folder: str, seed: int, begin: float, won) -> None:
    numbers = [n for n in range(10) for _ in range(5)]
    random.Random(seed).shuffle(numbers)
    time.sleep(max(0.0, begin - time.time()))
    for turn, number in enumerate(numbers):
        try:
            NonceBook(Path(folder)).reserve(use(number, f"run-{seed}-{turn}"), now_s=NOW_S)
        except ApprovalRefused:
            continue
        won.put(number)


def race(folder: Path) -> list[int]:
    """Lets eight processes make fifty reservations each of ten nonces; returns the nonces that were won."""
    context = multiprocessing.get_context("spawn")
    won = context.Queue()
    begin = time.time() + 2
    racers = [
        context.Process(target=_race, args=(str(folder), seed, begin, won)) for seed in range(8)
    ]
    for racer in racers:
        racer.start()
    found = [won.get(timeout=120) for _ in range(10)]
    for racer in racers:
        racer.join(120)
    if any(racer.exitcode for racer in racers) or not won.empty():
        raise AssertionError("a racer failed, or more than ten won")
    return sorted(found)


def test_of_four_hundred_racing_reservations_of_ten_nonces_exactly_ten_win(tmp_path):
    assert race(tmp_path) == list(range(10))
    assert len(NonceBook(tmp_path).state().lines) == 10


def test_a_kill_between_reservation_and_dispatch_burns_the_nonce(tmp_path):
    program = (
        "import sys, time; from pathlib import Path\n"
        "from tests.unit.trust.test_nonces import NonceBook, use, NOW_S\n"
        "NonceBook(Path(sys.argv[1])).reserve(use(7), now_s=NOW_S)\n"
        "print('reserved', flush=True); time.sleep(60); print('dispatched')\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"reserved\n"
        os.kill(process.pid, signal.SIGKILL)
        assert process.stdout.read() == b""
    assert refusal(tmp_path, use(7, "run-x")) == "nonce-used"


def test_the_same_run_comes_again_and_no_line_is_added(book):
    NonceBook(book).reserve(use(2), now_s=NOW_S + 10)
    assert len(NonceBook(book).state().lines) == 4


@pytest.mark.parametrize(
    "other",
    [
        Use(f"{2:064x}", "a" * 64, "b" * 64, "run-9"),
        Use(f"{2:064x}", "c" * 64, "b" * 64, "run-2"),
        Use(f"{2:064x}", "a" * 64, "c" * 64, "run-2"),
    ],
    ids=["run", "approval", "plan"],
)
def test_a_used_nonce_serves_nothing_else(book, other):
    assert refusal(book, other, NOW_S + 10) == "nonce-used"


def test_a_run_that_began_under_one_approval_gets_no_other(book):
    assert refusal(book, use(9, "run-2"), NOW_S + 10) == "run-has-another-approval"
    assert len(NonceBook(book).state().lines) == 4


def test_nothing_is_used_for_what_is_no_run(book):
    NonceBook(book).check(use(9, NO_RUN), now_s=NOW_S + 10)
    with pytest.raises(ValidationError):
        NonceBook(book).reserve(use(9, NO_RUN), now_s=NOW_S + 10)
    assert len(NonceBook(book).state().lines) == 4


def test_a_clock_behind_the_last_use_is_refused(book):
    assert refusal(book, use(9), NOW_S) == "clock-set-back"


@pytest.mark.parametrize(
    "change",
    [
        lambda lines: lines[:-1],
        lambda lines: [lines[0], lines[2], lines[1], lines[3]],
        lambda lines: [lines[0], *lines[2:]],
        lambda lines: [*lines, lines[3]],
        lambda lines: [lines[0].replace(b"run-0", b"run-9"), *lines[1:]],
        lambda lines: [*lines[:3], lines[3].replace(b"run-3", b"run-9")],
        lambda lines: [],
        lambda lines: [*lines, b"{}"],
    ],
    ids=["cut", "reordered", "removed", "repeated", "changed", "last changed", "emptied", "added"],
)
def test_a_changed_book_is_refused(book, change):
    path = book / BOOK
    path.write_bytes(b"".join(x + b"\n" for x in change(path.read_bytes().splitlines())))
    assert refusal(book, use(9), NOW_S + 10) == "nonce-book-broken"


def test_a_torn_line_is_refused(book):
    with (book / BOOK).open("ab") as stream:
        stream.write(b'{"at_s"')
    assert refusal(book, use(9), NOW_S + 10) == "nonce-book-broken"


def test_a_torn_line_is_told_with_what_mends_it_and_mending_it_gives_nothing_back(book):
    path = book / BOOK
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"at_s"')
    with pytest.raises(ApprovalRefused) as refused:
        NonceBook(book).state()
    assert f"truncate -s {len(whole)} {path}" in (refused.value.hint or "")
    subprocess.run(["truncate", "-s", str(len(whole)), path], check=True)
    assert len(NonceBook(book).state().lines) == 4
    path.write_bytes(whole[:-5])
    subprocess.run(["truncate", "-s", str(whole[:-5].rfind(b"\n") + 1), path], check=True)
    assert refusal(book, use(3, "run-2"), NOW_S + 10) == "nonce-book-broken"


@pytest.mark.parametrize("room_bytes", [0, 100])
def test_a_full_disk_leaves_the_book_as_it_was_and_uses_nothing_up(book, room_bytes):
    """A bound on the size of files stands for the full disk."""
    program = (
        "import resource, signal, sys; from pathlib import Path\n"
        "from tests.unit.trust.test_nonces import ApprovalRefused, NonceBook, use, NOW_S\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "room = int(sys.argv[2])\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))\n"
        "try:\n    NonceBook(Path(sys.argv[1])).reserve(use(7), now_s=NOW_S + 10)\n"
        "except ApprovalRefused as error:\n    print(error.reference)\n"
    )
    before = (book / BOOK).read_bytes()
    finished = subprocess.run(
        [sys.executable, "-c", program, str(book), str(len(before) + room_bytes)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert finished.stdout == "nonce-book-not-written\n"
    assert (book / BOOK).read_bytes() == before
    NonceBook(book).reserve(use(7, "run-x"), now_s=NOW_S + 11)


def test_a_book_cut_to_its_first_line_is_missed_without_its_head_too(book):
    (book / HEAD).unlink()
    (book / BOOK).write_bytes((book / BOOK).read_bytes().splitlines(keepends=True)[0])
    assert refusal(book, use(2, "run-2"), NOW_S + 10) == "nonce-book-broken"


def test_a_crash_before_the_first_line_is_no_damage(tmp_path):
    NonceBook(tmp_path).reserve(use(0), now_s=NOW_S)
    (tmp_path / BOOK).write_bytes(b"")
    (tmp_path / HEAD).write_bytes(
        NonceHead(size=0, last_sha256="0" * 64, high_water_s=0).canonical()
    )
    NonceBook(tmp_path).reserve(use(0), now_s=NOW_S)


def test_a_deleted_book_is_missed_by_its_head(book):
    (book / BOOK).unlink()
    assert refusal(book, use(2, "run-2"), NOW_S + 10) == "nonce-book-broken"


def test_a_deleted_head_is_missed_by_its_book(book):
    (book / HEAD).unlink()
    assert refusal(book, use(9), NOW_S + 10) == "nonce-book-broken"


def test_a_crash_between_line_and_head_is_no_damage(book):
    head = (book / HEAD).read_bytes()
    NonceBook(book).reserve(use(5), now_s=NOW_S + 10)
    (book / HEAD).write_bytes(head)
    NonceBook(book).reserve(use(6), now_s=NOW_S + 11)
    assert refusal(book, use(5, "run-x"), NOW_S + 12) == "nonce-used"


def no_room(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_head_that_cannot_be_written_after_its_line_refuses_nothing(book, monkeypatch):
    """The use is on disk: to refuse would burn an approval and dispatch nothing."""
    head = (book / HEAD).read_bytes()
    monkeypatch.setattr(nonces, "write_atomic", no_room)
    NonceBook(book).reserve(use(5), now_s=NOW_S + 10)
    assert (book / HEAD).read_bytes() == head
    monkeypatch.undo()
    assert refusal(book, use(5, "run-x"), NOW_S + 12) == "nonce-used"


def test_a_head_that_cannot_be_written_twice_in_a_row_uses_nothing_up(book, monkeypatch):
    monkeypatch.setattr(nonces, "write_atomic", no_room)
    NonceBook(book).reserve(use(5), now_s=NOW_S + 10)
    assert refusal(book, use(6), NOW_S + 11) == "nonce-book-not-written"
    monkeypatch.undo()
    assert NonceBook(book).state().use_of(use(6).nonce) is None


def test_after_a_crash_the_head_is_mended_before_the_next_line(book, monkeypatch):
    head = (book / HEAD).read_bytes()
    NonceBook(book).reserve(use(5), now_s=NOW_S + 10)
    whole = (book / HEAD).read_bytes()
    (book / HEAD).write_bytes(head)
    monkeypatch.setattr(NonceBook, "_append", no_room)
    with pytest.raises(OSError, match="No space left"):
        NonceBook(book).reserve(use(6), now_s=NOW_S + 11)
    assert (book / HEAD).read_bytes() == whole


def test_a_head_that_is_two_lines_behind_was_put_back(book):
    head = (book / HEAD).read_bytes()
    for number in (5, 6):
        NonceBook(book).reserve(use(number), now_s=NOW_S + 10)
    (book / HEAD).write_bytes(head)
    assert refusal(book, use(7), NOW_S + 11) == "nonce-book-broken"


@pytest.mark.parametrize("kind", ["symlink", "hard link", "fifo", "folder", "mode"])
def test_a_book_that_is_no_plain_file_of_ours_is_refused(tmp_path, kind):
    path = tmp_path / BOOK
    other = tmp_path / "other"
    other.touch(0o600)
    if kind == "symlink":
        path.symlink_to(other)
    elif kind == "hard link":
        path.hardlink_to(other)
    elif kind == "fifo":
        os.mkfifo(path, 0o600)
    elif kind == "folder":
        path.mkdir()
    else:
        path.touch(0o644)
        path.chmod(0o644)
    assert refusal(tmp_path, use(1)) == "nonce-book-broken"


def test_the_head_is_there_before_the_first_line_and_is_never_set_back(tmp_path, monkeypatch):
    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(NonceBook, "_append", crash)
    with pytest.raises(KeyboardInterrupt):
        NonceBook(tmp_path).reserve(use(0), now_s=NOW_S)
    assert NonceHead.parse_canonical((tmp_path / HEAD).read_bytes(), where=HEAD).size == 0
    monkeypatch.undo()
    NonceBook(tmp_path).reserve(use(0), now_s=NOW_S)
    monkeypatch.setattr(NonceBook, "_append", crash)
    with pytest.raises(KeyboardInterrupt):
        NonceBook(tmp_path).reserve(use(1), now_s=NOW_S)
    assert NonceHead.parse_canonical((tmp_path / HEAD).read_bytes(), where=HEAD).size == 1


def test_a_head_that_is_no_document_is_refused(book):
    (book / HEAD).write_bytes(b"{}x")
    assert refusal(book, use(9), NOW_S + 10) == "nonce-book-broken"


@pytest.mark.parametrize("failing", ["fsync", "write"])
def test_a_disk_that_fails_leaves_the_book_as_it_was(book, monkeypatch, failing):
    before = (book / BOOK).read_bytes()

    def fail(handle: int, *data: bytes) -> int:
        if data:
            real_write(handle, data[0][:7])
            return 7
        raise OSError(5, "Input/output error")

    real_write = os.write
    monkeypatch.setattr(os, failing, fail)
    assert refusal(book, use(9), NOW_S + 10) == "nonce-book-not-written"
    monkeypatch.undo()
    assert (book / BOOK).read_bytes() == before


def test_the_book_of_a_folder_that_is_not_there_is_empty(tmp_path):
    assert NonceBook(tmp_path / "none").state().lines == ()
    NonceBook(tmp_path / "none").check(use(1), now_s=NOW_S)
    assert not (tmp_path / "none").exists()


def test_the_book_and_its_folder_are_their_owners_alone(tmp_path):
    folder = tmp_path / "below" / "state"
    NonceBook(folder).reserve(use(1), now_s=NOW_S)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {(folder / name).stat().st_mode & 0o777 for name in (BOOK, HEAD)} == {0o600}


@pytest.mark.parametrize(("behind_s", "refused"), [(MAX_BACK_S, False), (MAX_BACK_S + 1, True)])
def test_a_clock_may_be_behind_the_last_use_by_so_much_and_no_more(book, behind_s, refused):
    now_s = NOW_S + 3 - behind_s
    if refused:
        assert refusal(book, use(9), now_s) == "clock-set-back"
    else:
        assert NonceBook(book).reserve(use(9), now_s=now_s).at_s == NOW_S + 3


def test_a_book_of_just_its_largest_size_is_read_and_one_byte_more_is_not(book, monkeypatch):
    size = (book / BOOK).stat().st_size
    monkeypatch.setattr(nonces, "MAX_BOOK_BYTES", size)
    assert len(NonceBook(book).state().lines) == 4
    monkeypatch.setattr(nonces, "MAX_BOOK_BYTES", size - 1)
    with pytest.raises(ApprovalRefused) as refused:
        NonceBook(book).state()
    assert refused.value.reference == "nonce-book-broken"


def test_the_name_of_a_new_book_is_made_durable_before_its_line_counts(tmp_path, monkeypatch):
    order: list[str] = []
    monkeypatch.setattr(nonces, "sync_folder", lambda folder: order.append(str(folder)))
    NonceBook(tmp_path).reserve(use(1), now_s=NOW_S)
    assert order == [str(tmp_path)]


def test_a_line_is_on_the_disk_before_its_use_counts(book, monkeypatch):
    synced: list[int] = []
    fsync = os.fsync

    def noted(descriptor: int) -> None:
        synced.append(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    monkeypatch.setattr("os.fsync", noted)
    NonceBook(book).reserve(use(9), now_s=NOW_S + 10)
    assert synced[0] == (book / BOOK).stat().st_ino

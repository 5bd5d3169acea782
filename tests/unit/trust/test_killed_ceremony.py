"""Promise: a ceremony that is killed at any instant leaves the old root or the new one, whole, and both go on."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrator.core.errors import UsageError
from orchestrator.trust import ceremony
from orchestrator.trust.ceremony import current, files_below
from orchestrator.trust.changes import refresh_root, rotate_root, withdraw_approval
from tests.unit.trust.support import CURATORS, key
from tests.unit.trust.test_ceremony import publish_one
from tests.unit.trust.test_proposals import ID, OWNERS, init

NOW_S = int(time.time())
NEW = tuple(key(f"new owner {i}") for i in range(3))
CHANGES_FILES = frozenset({"os.rename", "os.mkdir", "os.remove", "os.rmdir", "open"})
DONE, KILLED = 0, -signal.SIGKILL


def make(approvals: Path) -> None:
    init(approvals)


def withdraw(approvals: Path) -> None:
    withdraw_approval(approvals, ID, CURATORS[0], reason="a mistake", now_s=NOW_S)


def rotate(approvals: Path) -> None:
    rotate_root(
        approvals,
        owners=tuple(k.public for k in NEW),
        old=OWNERS[:2],
        new=NEW[:2],
        curator=CURATORS[0],
        now_s=NOW_S,
    )


def killed(change: Callable[[Path], None], approvals: Path, allowed: int) -> int:
    """Runs a ceremony in a child that is killed before it changes files once more than allowed; returns how it ended."""
    child = os.fork()
    if child == 0:
        left = allowed

        def count(event: str, args: tuple[Any, ...]) -> None:
            nonlocal left
            if event not in CHANGES_FILES or str(approvals) not in str(args[0]):
                return
            if event == "open" and not args[2] & (os.O_WRONLY | os.O_RDWR):
                return
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            left -= 1

        sys.addaudithook(count)
        change(approvals)
        os._exit(DONE)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.fixture
def published(tmp_path: Path) -> Path:
    approvals = tmp_path / "published"
    init(approvals)
    publish_one(approvals)
    return approvals


@pytest.mark.parametrize("change", [withdraw, rotate])
def test_a_ceremony_that_is_killed_leaves_the_old_root_or_the_new_one_and_is_gone_on_from(
    published, tmp_path, change
):
    old = files_below(published)
    shutil.copytree(published, tmp_path / "changed")
    change(tmp_path / "changed")
    new = files_below(tmp_path / "changed")
    found = []
    for allowed in range(1000):
        here = tmp_path / str(allowed)
        shutil.copytree(published, here)
        if killed(change, here, allowed) == DONE:
            break
        current(here, now_s=NOW_S)
        root = {name: data for name, data in files_below(here).items() if name[:4] == "tuf/"}
        found.append((root == only_root(old), root == only_root(new)))
        refresh_root(here, curator=CURATORS[1], now_s=NOW_S)
        assert not (here / ".ceremony").exists()
    assert set(found) == {(True, False), (False, True)}
    assert found == sorted(found, reverse=True)
    # Between any two writes: as many as there are files to write at the least.
    assert len(found) > len(new.keys() - old.keys())


def only_root(files: dict[str, bytes]) -> dict[str, bytes]:
    return {name: data for name, data in files.items() if name.startswith("tuf/")}


def test_a_root_that_was_killed_while_it_was_made_is_made_again_or_there(tmp_path):
    ended = []
    for allowed in range(1000):
        here = tmp_path / str(allowed)
        if killed(make, here, allowed) == DONE:
            break
        try:
            init(here)
            ended.append("made again")
        except UsageError as there:
            ended.append(there.reference)
        current(here, now_s=NOW_S)
    assert set(ended) == {"made again", "trust-root-there"}


def taken_away(approvals: Path) -> None:
    """What a ceremony leaves that is killed after it took the old root away."""
    (approvals / ".ceremony").mkdir()
    (approvals / "tuf").rename(approvals / ".ceremony" / "before")


def test_a_root_that_was_taken_away_is_not_made_anew(published):
    taken_away(published)
    with pytest.raises(UsageError, match="found one"):
        init(published)


def test_nothing_is_put_back_over_the_root_that_is_there(published):
    now = files_below(published)
    shutil.copytree(published / "tuf", published / ".ceremony" / "before")
    (published / ".ceremony" / "before" / "metadata" / "timestamp.json").write_bytes(b"old")
    current(published, now_s=NOW_S)
    assert only_root(files_below(published)) == only_root(now)


def test_what_a_killed_ceremony_leaves_is_not_committed(published):
    def git(*words: str) -> str:
        return subprocess.run(
            ["git", *words], cwd=published, check=True, capture_output=True, text=True
        ).stdout

    git("init", "-q")
    git("add", "-A")
    allowed = 6
    assert killed(withdraw, published, allowed) == KILLED
    assert list((published / ".ceremony").iterdir()) != []
    assert ".ceremony" not in git("status", "--short")


def test_another_ceremony_is_waited_for_before_its_root_is_put_back(published):
    """It has taken the old root away and is about to put the new one in its place."""
    handle = os.open(published, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    taken_away(published)
    new = published / ".ceremony" / "tuf"
    shutil.copytree(published / ".ceremony" / "before", new)
    (new / "it-is-the-new-one").write_bytes(b"")
    reader = threading.Thread(target=lambda: current(published, now_s=NOW_S))
    reader.start()
    reader.join(0.2)
    assert not (published / "tuf").exists()
    new.rename(published / "tuf")
    os.close(handle)
    reader.join()
    assert (published / "tuf" / "it-is-the-new-one").exists()


def test_a_change_that_cannot_take_the_new_roots_place_puts_the_old_one_back(
    published, monkeypatch
):
    before = files_below(published)
    synced: list[Path] = []

    def failing(folder: Path) -> None:
        synced.append(folder)
        if len(synced) == 1:
            raise OSError("No sync")

    monkeypatch.setattr(ceremony, "sync_folder", failing)
    with pytest.raises(OSError, match="No sync"):
        withdraw(published)
    assert files_below(published) == before


def test_the_bytes_of_a_root_are_on_the_disk_before_it_takes_its_place(published, monkeypatch):
    """What lies in the new root was written and synced, or copied and synced."""
    synced: list[str] = []
    renamed: list[list[str]] = []
    fsync, rename = os.fsync, Path.rename

    def watched(handle: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{handle}").readlink()))
        fsync(handle)

    def moved(source: Path, target: Path) -> Path:
        if source.name == "tuf" and target.parent == published:
            renamed.append(sorted(p.name for p in source.rglob("*") if p.is_file()))
        return rename(source, target)

    monkeypatch.setattr(os, "fsync", watched)
    monkeypatch.setattr(Path, "rename", moved)
    withdraw(published)
    (files,) = renamed
    names = {Path(path).name for path in synced}
    missing = [n for n in files if n not in names and not any(f".{n}." in s for s in names)]
    assert missing == []

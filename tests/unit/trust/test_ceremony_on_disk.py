"""Promise: what a ceremony wrote lies on the disk when it ends, git sees nothing of its stage, and its own error is told."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from orchestrator.core.errors import ApprovalRefused
from orchestrator.trust import ceremony
from orchestrator.trust.ceremony import BEFORE, STAGE, TUF, Place, current, files_below
from orchestrator.trust.changes import (
    publish_approval,
    refresh_root,
    rotate_root,
    withdraw_approval,
)
from orchestrator.trust.proposals import standings
from tests.unit.trust.support import CURATORS, as_bytes, key
from tests.unit.trust.test_ceremony import publish_one
from tests.unit.trust.test_proposals import ID, OWNERS, approval, init

NOW_S = int(time.time())


@pytest.fixture
def approvals(tmp_path: Path) -> Path:
    init(tmp_path)
    publish_one(tmp_path)
    return tmp_path


def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Paths of the files that are synced from now on, as they are called at that instant."""
    paths: list[str] = []
    real = os.fsync

    def noted(handle: int) -> None:
        paths.append(str(Path(f"/proc/self/fd/{handle}").readlink()))
        real(handle)

    monkeypatch.setattr(os, "fsync", noted)
    return paths


def test_the_files_that_stay_as_they_are_are_on_the_disk_before_the_old_folder_goes(
    monkeypatch, approvals
):
    stay = {name for name in files_below(approvals / TUF) if name != "metadata/timestamp.json"}
    paths = synced(monkeypatch)
    refresh_root(approvals, curator=CURATORS[0], now_s=NOW_S)
    first, _ = (at for at, path in enumerate(paths) if path == str(approvals))
    assert {str(approvals / STAGE / TUF / name) for name in stay} <= set(paths[:first])


def test_a_root_that_is_put_back_is_on_the_disk_before_it_is_read(monkeypatch, approvals):
    (approvals / STAGE).mkdir()
    (approvals / TUF).rename(approvals / STAGE / BEFORE)
    paths = synced(monkeypatch)
    current(approvals, now_s=NOW_S)
    assert paths == [str(approvals)]


def test_a_link_that_lies_there_stays_a_link(approvals):
    (approvals / TUF / "note").symlink_to("nowhere")
    (approvals / TUF / "copy").symlink_to("metadata/timestamp.json")
    refresh_root(approvals, curator=CURATORS[0], now_s=NOW_S)
    assert [(approvals / TUF / name).readlink() for name in ("note", "copy")] == [
        Path("nowhere"),
        Path("metadata/timestamp.json"),
    ]


def test_git_sees_nothing_of_the_stage(monkeypatch, tmp_path):
    def git(*words: str) -> str:
        return subprocess.check_output(["git", "-C", str(tmp_path), *words], text=True)

    git("init", "-q")
    approvals = tmp_path / "approvals"
    init(approvals)
    git("add", ".")
    seen: list[str] = []
    real = shutil.copytree

    def looked(*words: Any, **more: Any) -> Any:
        copied = real(*words, **more)
        seen.append(git("status", "--porcelain", "--untracked-files=all"))
        return copied

    monkeypatch.setattr(shutil, "copytree", looked)
    refresh_root(approvals, curator=CURATORS[0], now_s=NOW_S)
    assert seen
    assert all("A  approvals/tuf/metadata/1.root.json" in during for during in seen)
    assert not any(STAGE in during for during in seen)


def test_why_a_machines_file_could_not_be_written_is_told_and_nothing_is_left(
    monkeypatch, tmp_path
):
    def full(path: Path, data: bytes, **more: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    place = Place(tmp_path / "system", {"root.json": b"1", "other": b"2"})
    monkeypatch.setattr(ceremony, "write_atomic", full)
    with pytest.raises(OSError, match="No space left") as told:
        init(tmp_path / "a", machine=lambda _: (place,))
    assert told.value.errno == errno.ENOSPC
    assert files_below(tmp_path) == {}


def test_a_first_root_is_made_by_a_curator_of_its_roles(tmp_path):
    with pytest.raises(ApprovalRefused):
        init(tmp_path, curator=key("nobody"))
    assert files_below(tmp_path) == {}


def test_who_owns_the_root_has_no_other_role(tmp_path):
    owners = tuple(owner.public for owner in (*OWNERS[:2], CURATORS[1]))
    with pytest.raises(ApprovalRefused) as refused:
        init(tmp_path, owners=owners)
    assert refused.value.reference == "key-in-two-places"
    assert files_below(tmp_path) == {}


def test_what_was_proposed_under_an_earlier_root_is_not_published(approvals):
    new = tuple(key(f"new owner {i}") for i in range(3))
    rotate_root(
        approvals,
        owners=tuple(owner.public for owner in new),
        old=OWNERS[:2],
        new=new[:2],
        curator=CURATORS[0],
        now_s=NOW_S,
    )
    before = files_below(approvals)
    with pytest.raises(ApprovalRefused) as refused:
        publish_approval(approvals, approval(), CURATORS[0], now_s=NOW_S)
    assert refused.value.reference == "root-not-the-approved-one"
    assert files_below(approvals) == before


def test_what_was_withdrawn_holds_for_no_time(approvals):
    withdraw_approval(approvals, ID, CURATORS[0], reason="lost", now_s=NOW_S)
    (told,) = standings(approvals, now_s=NOW_S)
    assert told.expires_s == 0


def test_a_proposal_that_cannot_be_read_holds_for_no_time(approvals):
    path = approvals / "proposals" / "broken.json"
    path.write_bytes(as_bytes({"kind": "smoke"}))
    found = {told.approval_id: told for told in standings(approvals, now_s=NOW_S)}
    broken = found["broken"]
    assert (broken.expires_s, broken.published, broken.superseded) == (0, False, False)

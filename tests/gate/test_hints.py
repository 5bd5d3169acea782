"""Promise: a refusal of the gate that people meet in setting up says what helps, and not to do something else."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.core.errors import ApprovalRefused
from orchestrator.trust.gate.official import validate
from orchestrator.trust.repository import check_commit_name
from orchestrator.trust.trusted import check_folders
from tests.gate.world import World, ingredients, make_world
from tests.unit.trust.hostile_git import commit, git

DO = Callable[[World], object]


def unpushed(world: World) -> None:
    head = (world.repo / ".git/refs/remotes/origin/main").read_bytes()
    commit(world.repo, {"more": b"x"})
    (world.repo / ".git/refs/remotes/origin/main").write_bytes(head)


def uncommitted(world: World) -> None:
    path = world.repo / "approvals/tuf/metadata/timestamp.json"
    path.write_bytes(path.read_bytes() + b" ")


def untracked(world: World) -> None:
    (world.repo / "approvals/tuf/metadata/more.json").write_bytes(b"{}")


def deleted(world: World) -> None:
    (world.repo / "approvals/tuf/metadata/timestamp.json").unlink()


def never_fetched(world: World) -> None:
    (world.repo / ".git/refs/remotes/origin/main").unlink()


def elsewhere(world: World) -> None:
    git(world.repo, "switch", "-q", "-c", "other")


def no_repository(world: World) -> None:
    (world.repo / ".git").rename(world.repo / "git")


def open_folder(world: World) -> None:
    (world.repo / "approvals/tuf").chmod(0o777)


def open_file(world: World) -> None:
    (world.repo / "approvals/tuf/metadata/timestamp.json").chmod(0o666)


@pytest.mark.parametrize(
    ("change", "code", "helps"),
    [
        (unpushed, "head-not-at-remote", "`git push`"),
        (never_fetched, "ref-missing", "`git fetch origin`"),
        (elsewhere, "head-not-on-branch", "`git switch`"),
        (no_repository, "repository-missing", "--repository"),
        (uncommitted, "worktree-differs", "commit and push"),
        (untracked, "worktree-has-more", "commit and push"),
        (deleted, "file-missing", "`git restore approvals`"),
        (open_folder, "folder-writable-by-others", "`chmod go-w`"),
        (open_file, "file-writable-by-others", "`chmod go-w`"),
    ],
)
def test_the_hint_is_of_its_code(clean_folder, change: DO, code, helps):
    world = make_world(clean_folder, ingredients())
    change(world)
    refusal = validate(world.asked()).refusal
    assert refusal is not None
    assert (refusal.reference, helps in refusal.hint) == (code, True), refusal.hint
    assert "clone the repository again" not in refusal.hint
    assert "as its owner installed it" not in refusal.hint


def test_a_file_that_somebody_changed_is_still_put_back(clean_folder):
    world = make_world(clean_folder, ingredients())
    (world.repo / "approvals/tuf/metadata/timestamp.json").chmod(0o4644)
    refusal = validate(world.asked()).refusal
    assert refusal is not None
    assert "as its owner installed it" in refusal.hint


def test_a_repository_that_is_not_plain_is_still_cloned_again(clean_folder):
    world = make_world(clean_folder, ingredients())
    (world.repo / ".git/shallow").touch()
    refusal = validate(world.asked()).refusal
    assert refusal is not None
    assert "clone the repository again" in refusal.hint


@pytest.mark.parametrize(
    ("path", "uid", "helps"),
    [("/etc/never-made", 0, "memtrial trust init"), ("relative", 0, "from / on")],
)
def test_a_folder_that_cannot_be_trusted_is_explained(path, uid, helps):
    with pytest.raises(ApprovalRefused) as refused:
        check_folders(Path(path), owner_uid=uid)
    assert helps in refused.value.hint


def test_a_folder_of_somebody_else_is_explained(clean_folder):
    (clean_folder / "own").mkdir()
    if os.geteuid() == 0:
        os.chown(clean_folder / "own", 4242, -1)
    owner = os.geteuid() + 1
    with pytest.raises(ApprovalRefused) as refused:
        check_folders(clean_folder / "own", owner_uid=owner)
    assert "such as /etc/memtrial" in refused.value.hint


def test_a_name_of_a_commit_leads_to_its_id():
    with pytest.raises(ApprovalRefused) as refused:
        check_commit_name("HEAD")
    assert "git rev-parse HEAD" in refused.value.hint

"""Promise: what the gate takes from a repository is what its commit says, whatever its `.git` has been made to claim."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.core.errors import ApprovalRefused
from orchestrator.trust import plumbing
from orchestrator.trust.plumbing import Objects
from orchestrator.trust.repository import Repository, check_commit_name, check_hygiene
from tests.unit.trust.hostile_git import (
    commit,
    foreign_commit,
    forge_commit_graph,
    git,
    new_repository,
    overwrite_blob,
)

FILES = {"approvals/tuf/a.json": b"{}", "approvals/tuf/sub/b.json": b"[]"}


@pytest.fixture
def made(tmp_path):
    first, head = new_repository(tmp_path / "r", FILES)
    return tmp_path / "r", first, head


def gate(folder: Path, approved: str) -> dict[str, bytes]:
    """What the gate does with a repository, in its order."""
    check_commit_name(approved)
    check_hygiene(folder)
    with Objects(folder / ".git") as objects:
        repository = Repository(folder, branch="main", objects=objects)
        head = repository.head()
        files = repository.files_below(repository.tree_of(head), "approvals/tuf")
        if not repository.is_ancestor(approved, head):
            raise ApprovalRefused("commit-not-in-history", approved, hint="none")
        assert repository.committed_s(head) == 1_700_000_000
        return files


def refusal(folder: Path, approved: str) -> str:
    with pytest.raises(ApprovalRefused) as refused:
        gate(folder, approved)
    return refused.value.reference


def test_a_plain_repository_gives_its_files(made):
    folder, first, head = made
    assert gate(folder, first) == gate(folder, head) == {"a.json": b"{}", "sub/b.json": b"[]"}


def test_packed_refs_and_objects_read_alike(made):
    folder, first, _ = made
    git(folder, "pack-refs", "--all")
    git(folder, "gc", "-q")
    assert gate(folder, first) == {"a.json": b"{}", "sub/b.json": b"[]"}


def test_neither_a_tag_named_main_nor_the_callers_environment_changes_anything(
    made, monkeypatch, tmp_path
):
    folder, first, _ = made
    git(folder, "tag", "main", first)
    for name in (
        "GIT_DIR",
        "GIT_OBJECT_DIRECTORY",
        "GIT_WORK_TREE",
        "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    ):
        monkeypatch.setenv(name, "/nonexistent")
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "core.worktree")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "/nonexistent")
    fake = tmp_path / "bin" / "git"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("GIT_PYTHON_GIT_EXECUTABLE", str(fake))
    assert gate(folder, first) == {"a.json": b"{}", "sub/b.json": b"[]"}


def _set(folder: Path, name: str, value: str) -> None:
    git(folder, "config", name, value)


def _write(folder: Path, name: str, text: str) -> None:
    path = folder / ".git" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


Attack = Callable[[Path, str, str], object]


def in_turn(*steps: Attack) -> Attack:
    def attack(folder: Path, first: str, head: str) -> None:
        for step in steps:
            step(folder, first, head)

    return attack


ATTACKS: dict[str, tuple[Attack, str]] = {
    "detached HEAD": (lambda r, f, h: git(r, "checkout", "-q", "--detach"), "head-not-on-branch"),
    "another branch": (
        lambda r, f, h: git(r, "checkout", "-q", "-b", "other"),
        "head-not-on-branch",
    ),
    "origin behind": (
        lambda r, f, h: git(r, "update-ref", "refs/remotes/origin/main", f),
        "head-not-at-remote",
    ),
    "origin ahead": (
        lambda r, f, h: git(r, "update-ref", "refs/remotes/origin/main", foreign_commit(r)),
        "head-not-at-remote",
    ),
    "no origin": (
        lambda r, f, h: git(r, "update-ref", "-d", "refs/remotes/origin/main"),
        "ref-missing",
    ),
    "origin as a symbolic ref": (
        lambda r, f, h: git(r, "symbolic-ref", "refs/remotes/origin/main", "refs/heads/main"),
        "ref-not-plain",
    ),
    "a ref that is a link": (
        in_turn(
            lambda r, f, h: (r / ".git/refs/remotes/origin/main").unlink(),
            lambda r, f, h: (r / ".git/refs/remotes/origin/main").symlink_to("../../heads/main"),
        ),
        "ref-not-plain",
    ),
    "replace ref": (
        lambda r, f, h: git(r, "replace", h, foreign_commit(r)),
        "repository-not-plain",
    ),
    "packed replace ref": (
        in_turn(
            lambda r, f, h: git(r, "replace", h, foreign_commit(r)),
            lambda r, f, h: git(r, "pack-refs", "--all"),
            lambda r, f, h: shutil.rmtree(r / ".git/refs/replace", ignore_errors=True),
        ),
        "repository-not-plain",
    ),
    "replace by graft": (
        lambda r, f, h: git(r, "replace", "--graft", h, foreign_commit(r)),
        "repository-not-plain",
    ),
    "grafts": (
        lambda r, f, h: _write(r, "info/grafts", f"{h} {foreign_commit(r)}\n"),
        "repository-not-plain",
    ),
    "shallow": (lambda r, f, h: _write(r, "shallow", f"{h}\n"), "repository-not-plain"),
    "alternates": (
        lambda r, f, h: _write(r, "objects/info/alternates", "/nonexistent\n"),
        "repository-not-plain",
    ),
    "common folder elsewhere": (
        lambda r, f, h: _write(r, "commondir", "/nonexistent\n"),
        "repository-not-plain",
    ),
    ".git as a file": (
        in_turn(
            lambda r, f, h: (r / ".git").rename(r.parent / "g"),
            lambda r, f, h: (r / ".git").write_text(f"gitdir: {r.parent / 'g'}\n"),
        ),
        "git-folder-not-real",
    ),
    ".git as a link": (
        in_turn(
            lambda r, f, h: (r / ".git").rename(r.parent / "g"),
            lambda r, f, h: (r / ".git").symlink_to(r.parent / "g"),
        ),
        "git-folder-not-real",
    ),
    "a blob with other bytes": (
        lambda r, f, h: overwrite_blob(r, "approvals/tuf/a.json", b'{"x":1}'),
        "object-not-its-id",
    ),
    "fsmonitor": (lambda r, f, h: _set(r, "core.fsmonitor", "touch /tmp/x"), "repository-config"),
    "hooks elsewhere": (lambda r, f, h: _set(r, "core.hooksPath", "/tmp"), "repository-config"),
    "worktree elsewhere": (lambda r, f, h: _set(r, "core.worktree", "/tmp"), "repository-config"),
    "include": (lambda r, f, h: _set(r, "include.path", "/tmp/x"), "repository-config"),
    "include if": (
        lambda r, f, h: _set(r, "includeIf.gitdir:/.path", "/tmp/x"),
        "repository-config",
    ),
    "filter": (lambda r, f, h: _set(r, "filter.x.clean", "cat"), "repository-config"),
    "url rewriting": (
        lambda r, f, h: _set(r, "url./tmp.insteadOf", "https://"),
        "repository-config",
    ),
    "extensions": (
        lambda r, f, h: _set(r, "extensions.worktreeConfig", "true"),
        "repository-config",
    ),
    "promisor": (lambda r, f, h: _set(r, "remote.origin.promisor", "true"), "repository-config"),
    "bare": (lambda r, f, h: _set(r, "core.bare", "true"), "repository-config"),
    "tracked link": (
        in_turn(
            lambda r, f, h: (r / "approvals/tuf/l").symlink_to("/etc/hostname"),
            lambda r, f, h: commit(r, {}),
        ),
        "tracked-file-not-plain",
    ),
    "tracked executable": (
        in_turn(
            lambda r, f, h: (r / "approvals/tuf/a.json").chmod(0o755), lambda r, f, h: commit(r, {})
        ),
        "tracked-file-not-plain",
    ),
    "names that differ in case": (
        lambda r, f, h: commit(r, {"approvals/tuf/A.json": b"{}"}),
        "names-differ-in-case",
    ),
    "folder in another case beside": (
        lambda r, f, h: commit(r, {"Approvals/tuf/a.json": b"{}"}),
        "names-differ-in-case",
    ),
}


@pytest.mark.parametrize(("attack", "reference"), ATTACKS.values(), ids=ATTACKS)
def test_a_repository_that_lies_is_refused(made, attack, reference):
    folder, first, head = made
    attack(folder, first, head)
    assert refusal(folder, first) == reference


def test_a_forged_commit_graph_fools_git_and_not_the_gate(made):
    folder, _, middle = made
    foreign = foreign_commit(folder)
    head = commit(folder, {"later": b"1"})
    forge_commit_graph(folder, middle, foreign)
    fooled = subprocess.run(
        ["git", "merge-base", "--is-ancestor", foreign, head],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_NO_REPLACE_OBJECTS": "1"},
        check=False,
    )
    assert fooled.returncode == 0
    assert refusal(folder, foreign) == "commit-not-in-history"


@pytest.mark.parametrize("flag", ["--assume-unchanged", "--skip-worktree"])
def test_index_flags_hide_nothing_for_the_work_tree_is_not_what_is_read(made, flag):
    folder, first, _ = made
    git(folder, "update-index", flag, "approvals/tuf/a.json")
    (folder / "approvals/tuf/a.json").write_bytes(b'{"evil":1}')
    assert git(folder, "status", "--porcelain") == ""
    assert gate(folder, first)["a.json"] == b"{}"


@pytest.mark.parametrize(
    "name", ["HEAD", "main", "v1", "A" * 40, "a" * 39, "a" * 41, "", "a" * 40 + "\n"]
)
def test_a_commit_is_a_full_id_and_no_name(made, name):
    assert refusal(made[0], name) == "commit-not-an-id"


def test_an_older_history_that_is_not_ours_is_refused(made):
    folder, _, _ = made
    assert refusal(folder, foreign_commit(folder)) == "commit-not-in-history"
    assert refusal(folder, "0" * 40) == "commit-not-in-history"


def test_a_pipe_in_an_objects_place_holds_nobody_up(made, monkeypatch):
    folder, first, head = made
    monkeypatch.setattr(plumbing, "TIMEOUT_S", 0.5)
    path = folder / ".git/objects" / head[:2] / head[2:]
    path.unlink()
    os.mkfifo(path)
    began = time.monotonic()
    assert refusal(folder, first) == "git-failed"
    assert time.monotonic() - began < 20


def test_a_pipe_in_the_place_of_packed_refs_holds_nobody_up(made):
    folder, first, _ = made
    os.mkfifo(folder / ".git/packed-refs")
    assert refusal(folder, first) == "ref-not-plain"


def test_an_object_larger_than_any_document_is_not_read(made):
    folder, first, _ = made
    commit(folder, {"approvals/tuf/large": b"x" * (plumbing.MAX_OBJECT_BYTES + 1)})
    assert refusal(folder, first) == "object-of-another-kind"


def test_many_objects_come_whole_whatever_their_sizes(made):
    folder, first, _ = made
    files = {f"f{i}": bytes([i % 251]) * (i * 977) for i in range(60)}
    commit(folder, {f"approvals/tuf/many/{name}": data for name, data in files.items()})
    found = gate(folder, first)
    assert {name: found[f"many/{name}"] for name in files} == files

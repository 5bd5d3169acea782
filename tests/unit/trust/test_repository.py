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
from orchestrator.trust import repository as repository_module
from orchestrator.trust.plumbing import Objects
from orchestrator.trust.repository import (
    Repository,
    _parse_tree,
    check_commit_name,
    check_hygiene,
    check_owned,
)
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


def raw_commit(folder: Path, text: str) -> str:
    """Writes a commit of these very bytes and makes it HEAD."""
    made = subprocess.run(
        ["git", "hash-object", "-t", "commit", "-w", "--stdin", "--literally"],
        cwd=folder,
        input=text.encode(),
        check=True,
        capture_output=True,
    )
    oid = made.stdout.decode().strip()
    for ref in ("refs/heads/main", "refs/remotes/origin/main"):
        (folder / ".git" / ref).write_text(oid + "\n")
    return oid


@pytest.mark.parametrize(
    "text",
    [
        "author a <a> 1700000000 +0000\ncommitter a <a> 1700000000 +0000\n\nx",
        "tree short\ncommitter a <a> 1700000000 +0000\n\nx",
        "tree {tree}\nparent main\ncommitter a <a> 1700000000 +0000\n\nx",
        "tree {tree}\ncommitter a <a> yesterday\n\nx",
        "tree {tree}\ncommitter a <a> 1 +0000\ncommitter a <a> 2 +0000\n\nx",
        "tree {tree}\n\nx",
    ],
    ids=["no tree", "short tree", "parent by name", "no time", "two committers", "no committer"],
)
def test_a_commit_that_git_would_not_write_is_refused(made, text):
    folder, _, head = made
    tree = git(folder, "rev-parse", f"{head}^{{tree}}")
    oid = raw_commit(folder, text.format(tree=tree))
    with Objects(folder / ".git") as objects:
        repository = Repository(folder, branch="main", objects=objects)

        def everything() -> None:
            repository.tree_of(oid)
            repository.is_ancestor("0" * 40, oid)
            repository.committed_s(oid)

        with pytest.raises(ApprovalRefused) as refused:
            everything()
    assert refused.value.reference == "commit-malformed"


@pytest.mark.parametrize(
    "body",
    [
        b"100644 a\0short",
        b"100644\0" + b"0" * 20,
        b"100644 ..\0" + b"0" * 20,
        b"100644 .git\0" + b"0" * 20,
        b"100644 a/b\0" + b"0" * 20,
        b"100644 \0" + b"0" * 20,
        b"x",
    ],
)
def test_a_tree_that_git_would_not_write_is_refused(body):
    with pytest.raises(ApprovalRefused) as refused:
        list(_parse_tree(body))
    assert refused.value.reference == "tree-malformed"


def test_a_history_without_end_is_refused(made, monkeypatch):
    folder, _, head = made
    monkeypatch.setattr(repository_module, "MAX_COMMITS", 0)
    with Objects(folder / ".git") as objects:
        repository = Repository(folder, branch="main", objects=objects)
        with pytest.raises(ApprovalRefused) as refused:
            repository.is_ancestor("0" * 40, head)
    assert refused.value.reference == "history-too-long"


def test_packed_refs_without_end_are_refused(made, monkeypatch):
    folder, first, _ = made
    git(folder, "pack-refs", "--all")
    monkeypatch.setattr(repository_module, "MAX_PACKED_BYTES", 10)
    assert refusal(folder, first) == "packed-refs-too-large"


@pytest.mark.parametrize(
    ("bound", "value"),
    [("MAX_FILES", 1), ("MAX_FOLDERS", 1), ("MAX_FILES_BYTES", 3), ("MAX_LEVELS", 1)],
)
def test_a_trust_root_has_its_bounds(made, monkeypatch, bound, value):
    folder, first, _ = made
    assert gate(folder, first)
    monkeypatch.setattr(repository_module, bound, value)
    assert refusal(folder, first) == "tracked-files-too-many"


def test_folders_that_wait_to_be_looked_into_count_as_well(made, monkeypatch):
    folder, _, _ = made
    monkeypatch.setattr(repository_module, "MAX_FOLDERS", 3)
    empty = subprocess.check_output(["git", "mktree"], cwd=folder, input=b"").decode().strip()
    listed = "".join(f"040000 tree {empty}\t{name}\n" for name in "abcd")
    wide = subprocess.check_output(["git", "mktree"], cwd=folder, input=listed.encode())
    outer = f"040000 tree {wide.decode().strip()}\tall\n"
    tree = subprocess.check_output(["git", "mktree"], cwd=folder, input=outer.encode())
    with Objects(folder / ".git") as objects:
        repository = Repository(folder, branch="main", objects=objects)
        with pytest.raises(ApprovalRefused) as refused:
            repository.files_below(tree.decode().strip(), "all")
    assert refused.value.reference == "tracked-files-too-many"


def test_a_folder_that_is_not_tracked_is_told(made):
    folder, _, head = made
    with Objects(folder / ".git") as objects:
        repository = Repository(folder, branch="main", objects=objects)
        with pytest.raises(ApprovalRefused) as refused:
            repository.files_below(repository.tree_of(head), "approvals/none")
    assert refused.value.reference == "tracked-file-not-plain"


def test_a_git_that_is_gone_or_ended_is_told(made, monkeypatch):
    folder, _, head = made
    with Objects(folder / ".git") as objects:
        with pytest.raises(ApprovalRefused) as refused:
            objects.get("0" * 40, "commit")
        assert refused.value.reference == "object-missing"
        objects._process.kill()
        objects._process.wait()
        for _ in range(2):
            with pytest.raises(ApprovalRefused) as refused:
                objects.get(head, "commit")
            assert refused.value.reference == "git-failed"
    monkeypatch.setattr(plumbing, "GIT", "/nonexistent/git")
    with pytest.raises(ApprovalRefused) as refused:
        Objects(folder / ".git")
    assert refused.value.reference == "git-missing"
    with pytest.raises(ApprovalRefused) as refused:
        plumbing.config_names(folder / ".git/config")
    assert refused.value.reference == "git-failed"


def test_a_configuration_that_git_cannot_read_is_told(made):
    folder, first, _ = made
    (folder / ".git/config").write_text("[core\n")
    assert refusal(folder, first) == "repository-config"


def test_a_folder_that_others_can_write_and_a_missing_one_are_told(clean_folder):
    with pytest.raises(ApprovalRefused) as refused:
        check_owned(clean_folder, owner_uid=os.geteuid(), branch="main")
    assert refused.value.reference == "repository-missing"
    new_repository(clean_folder / "r", FILES)
    check_owned(clean_folder / "r", owner_uid=os.geteuid(), branch="main")
    (clean_folder / "r/.git/refs/heads").chmod(0o777)
    with pytest.raises(ApprovalRefused) as refused:
        check_owned(clean_folder / "r", owner_uid=os.geteuid(), branch="main")
    assert refused.value.reference == "folder-writable-by-others"


@pytest.mark.parametrize("name", [b"a b", b"\x1b", "\u00e9".encode(), b"-x", b".x", b"a" * 201])
def test_a_name_that_is_not_plain_is_refused(name):
    with pytest.raises(ApprovalRefused):
        repository_module._plain_name(name)
    assert repository_module._plain_name(b"1.root.json") == "1.root.json"

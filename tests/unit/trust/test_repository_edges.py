"""Promise: at the edges of its sizes and forms a repository is read, or refused, as it is written; git may fail anywhere."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from orchestrator.core.errors import ApprovalRefused
from orchestrator.trust import plumbing
from orchestrator.trust import repository as repository_module
from orchestrator.trust.plumbing import Objects
from orchestrator.trust.repository import Repository, _parse_tree, check_owned
from tests.unit.trust.hostile_git import foreign_commit, git, new_repository
from tests.unit.trust.test_repository import FILES, gate, raw_commit, refusal


@pytest.fixture
def made(tmp_path):
    first, head = new_repository(tmp_path / "r", FILES)
    return tmp_path / "r", first, head


def test_of_packed_refs_the_one_of_that_very_name_is_taken(made):
    folder, first, head = made
    git(folder, "update-ref", "refs/heads/aaa", first)
    git(folder, "update-ref", "refs/heads/zzz", first)
    git(folder, "pack-refs", "--all", "--prune")
    assert (folder / ".git" / "packed-refs").read_text().count(first) == 2
    with Objects(folder / ".git") as objects:
        assert Repository(folder, branch="main", objects=objects).head() == head


def test_packed_refs_of_just_their_largest_size_are_read(made, monkeypatch):
    folder, first, _ = made
    git(folder, "pack-refs", "--all", "--prune")
    size = (folder / ".git" / "packed-refs").stat().st_size
    monkeypatch.setattr(repository_module, "MAX_PACKED_BYTES", size)
    assert gate(folder, first) == {"a.json": b"{}", "sub/b.json": b"[]"}
    monkeypatch.setattr(repository_module, "MAX_PACKED_BYTES", size - 1)
    assert refusal(folder, first) == "packed-refs-too-large"


def test_a_history_of_just_its_longest_length_is_walked(made, monkeypatch):
    folder, first, _ = made
    foreign = foreign_commit(folder)
    monkeypatch.setattr(repository_module, "MAX_COMMITS", 2)
    assert refusal(folder, foreign) == "commit-not-in-history"
    monkeypatch.setattr(repository_module, "MAX_COMMITS", 1)
    assert refusal(folder, foreign) == "history-too-long"
    assert first


def test_what_is_no_file_leaves_nothing_open(made):
    folder, first, _ = made
    (folder / ".git" / "HEAD").unlink()
    os.mkfifo(folder / ".git" / "HEAD")
    assert refusal(folder, first) == "ref-not-plain"
    before = len(list(Path("/proc/self/fd").iterdir()))
    assert refusal(folder, first) == "ref-not-plain"
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def git_that(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Puts a program in git's place."""
    path = folder / "git"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    monkeypatch.setattr(plumbing, "GIT", str(path))
    return folder


def test_a_git_that_ends_within_an_answer_has_failed(tmp_path, monkeypatch):
    git_that(tmp_path, f'read line; printf "{"a" * 40} blob 9\\nhalf"', monkeypatch)
    with Objects(tmp_path) as objects, pytest.raises(ApprovalRefused, match="its end") as refused:
        objects.get("a" * 40, "blob")
    assert refused.value.reference == "git-failed"


def test_a_git_that_ended_before_it_was_asked_has_failed(tmp_path, monkeypatch):
    git_that(tmp_path, "exit 1", monkeypatch)
    with Objects(tmp_path) as objects:
        objects._process.wait()
        with pytest.raises(ApprovalRefused) as refused:
            objects.get("a" * 40, "blob")
    assert refused.value.reference == "git-failed"


@pytest.mark.parametrize(
    ("digits", "reference"),
    [("0" * 11 + "1", "object-not-its-id"), ("0" * 12 + "1", "object-of-another-kind")],
)
def test_a_length_of_more_than_twelve_digits_is_none(tmp_path, monkeypatch, digits, reference):
    git_that(tmp_path, f'read line; printf "{"a" * 40} blob {digits}\\nx\\n"', monkeypatch)
    with Objects(tmp_path) as objects, pytest.raises(ApprovalRefused) as refused:
        objects.get("a" * 40, "blob")
    assert refused.value.reference == reference


def test_an_object_of_just_the_largest_size_is_read(made, monkeypatch):
    folder, _, _ = made
    monkeypatch.setattr(plumbing, "MAX_OBJECT_BYTES", 2)
    with Objects(folder / ".git") as objects:
        assert objects.get(git(folder, "rev-parse", "HEAD:approvals/tuf/a.json"), "blob") == b"{}"
        monkeypatch.setattr(plumbing, "MAX_OBJECT_BYTES", 1)
        with pytest.raises(ApprovalRefused, match="at most 1 bytes"):
            objects.get(git(folder, "rev-parse", "HEAD:approvals/tuf/a.json"), "blob")


@pytest.mark.parametrize(
    "body",
    [
        b"100644 \0" + b"x" * 20,
        b" a\0" + b"x" * 20,
        b"100644 a\0" + b"x" * 19,
        b"100644a\0b " + b"x" * 20,
    ],
)
def test_an_entry_without_mode_name_or_whole_id_is_no_tree(body):
    with pytest.raises(ApprovalRefused) as refused:
        list(_parse_tree(body))
    assert refused.value.reference == "tree-malformed"


def test_an_entry_with_its_whole_id_at_the_end_is_one():
    (entry,) = _parse_tree(b"100644 a\0" + b"x" * 20)
    assert (entry.mode, entry.name, entry.oid) == ("100644", b"a", b"x".hex() * 20)


@pytest.mark.parametrize("name", ["HEAD", "config", "packed-refs"])
def test_a_file_of_git_that_others_can_write_is_refused(clean_folder, name):
    new_repository(clean_folder / "r", FILES)
    git(clean_folder / "r", "pack-refs", "--all")
    check_owned(clean_folder / "r", owner_uid=os.geteuid(), branch="main")
    (clean_folder / "r" / ".git" / name).chmod(0o666)
    with pytest.raises(ApprovalRefused) as refused:
        check_owned(clean_folder / "r", owner_uid=os.geteuid(), branch="main")
    assert refused.value.reference == "file-writable-by-others"


BOUNDS = [("MAX_FILES", 2), ("MAX_FOLDERS", 2), ("MAX_FILES_BYTES", 4), ("MAX_LEVELS", 2)]


@pytest.mark.parametrize(("bound", "just"), BOUNDS)
def test_a_trust_root_of_just_its_largest_size_is_read(made, monkeypatch, bound, just):
    folder, first, _ = made
    monkeypatch.setattr(repository_module, bound, just)
    assert gate(folder, first) == {"a.json": b"{}", "sub/b.json": b"[]"}
    monkeypatch.setattr(repository_module, bound, just - 1)
    assert refusal(folder, first) == "tracked-files-too-many"


@pytest.mark.parametrize("name", ["refs/remotes/origin", "packed-refs"])
def test_a_dangling_link_in_git_is_looked_at_and_refused(clean_folder, name):
    new_repository(clean_folder / "r", FILES)
    place = clean_folder / "r" / ".git" / name
    if place.is_dir():
        place.rename(place.with_name("moved"))
    place.unlink(missing_ok=True)
    place.symlink_to(clean_folder / "nothing")
    with pytest.raises(ApprovalRefused) as refused:
        check_owned(clean_folder / "r", owner_uid=os.geteuid(), branch="main")
    assert refused.value.reference == "link-on-the-way"


def test_a_parent_with_a_word_behind_it_is_none(made):
    folder, _, head = made
    tree = git(folder, "rev-parse", "HEAD^{tree}")
    who = "t <t@example> 1700000000 +0000"
    raw_commit(folder, f"tree {tree}\nparent {head} more\nauthor {who}\ncommitter {who}\n\nm\n")
    with pytest.raises(ApprovalRefused) as refused:
        gate(folder, head)
    assert refused.value.reference == "commit-malformed"

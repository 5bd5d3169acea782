"""Of an upstream repository only the tree of one commit is taken, checked without git."""

from __future__ import annotations

import os
import subprocess

import pytest

from orchestrator.core.errors import DocumentError, EnvironmentMissing, IntegrityError
from orchestrator.core.gittree import tree_id
from orchestrator.model.source import Expected, GitSource
from orchestrator.sources.checkout import commit_id, materialise, repository_entries
from orchestrator.sources.upstream import cache_path, read_upstream

HOSTILE = {
    "plain": ({}, 0o022),
    "umask-077": ({}, 0o077),
    "autocrlf": ({"core.autocrlf": "true", "core.eol": "crlf"}, 0o022),
    "filemode-off": ({"core.fileMode": "false", "core.symlinks": "false"}, 0o002),
}


def git(folder, *words, **environment):
    return subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@b.invalid", "-c", "protocol.file.allow=always", *words],
        cwd=folder, check=True, capture_output=True, text=True, env={**os.environ, **environment},
    ).stdout.strip()  # fmt: skip


@pytest.fixture
def upstream(tmp_path):
    folder = tmp_path / "upstream"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    (folder / "LICENSE").write_text("MIT\n")
    (folder / "old.txt").write_text("secret of the past\n")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "one")
    (folder / "old.txt").unlink()
    (folder / "crlf.bat").write_bytes(b"echo\r\n")
    (folder / ".gitattributes").write_text("* text=auto\n")
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "link").symlink_to("run.sh")
    (folder / "src").mkdir()
    (folder / "src" / "a.txt").write_text("a\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "two")
    git(folder, "tag", "v2")
    return folder


def source(folder, commit, **changes):
    fields = {
        "kind": "git",
        "id": "thing",
        "url": folder.as_uri(),
        "upstream_commit": commit,
        "licence": "MIT",
        "licence_files": ("LICENSE",),
        "expect": Expected(tree="0" * 40, commit="0" * 40, files=1, bytes=0),
    }
    return GitSource.model_validate({**fields, **changes})


def pinned(folder, commit, cache):
    files, _, _ = read_upstream(source(folder, commit), cache)
    tree = tree_id(files.values())
    size = sum(len(entry.data) for entry in files.values())
    expect = Expected(tree=tree, commit=commit_id(tree), files=len(files), bytes=size)
    return source(folder, commit, expect=expect)


def test_the_tree_is_upstream_s_and_the_commit_is_ours_alone(upstream, tmp_path):
    commit = git(upstream, "rev-parse", "HEAD")
    pin = pinned(upstream, commit, tmp_path)
    checkout = materialise(pin, fixtures=tmp_path, cache=tmp_path)
    assert checkout.tree == git(upstream, "rev-parse", "HEAD^{tree}")
    assert checkout.commit != commit
    stored = b"".join(entry.data for entry in repository_entries(checkout))
    assert b"secret of the past" not in stored
    assert commit.encode() not in stored


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_settings_change_neither_tree_nor_commit(upstream, tmp_path, monkeypatch, name):
    settings, mask = HOSTILE[name]
    home = tmp_path / "home"
    home.mkdir()
    for key, value in settings.items():
        git(home, "config", "--file", str(home / ".gitconfig"), key, value)
    monkeypatch.setenv("HOME", str(home))
    before = os.umask(mask)
    try:
        pin = pinned(upstream, git(upstream, "rev-parse", "HEAD"), tmp_path / "cache")
        assert materialise(pin, fixtures=tmp_path, cache=tmp_path / "cache").tree == pin.expect.tree
        assert repository_entries(materialise(pin, fixtures=tmp_path, cache=tmp_path / "cache"))
    finally:
        os.umask(before)
    assert pin.expect.tree == git(upstream, "rev-parse", "HEAD^{tree}")


def test_an_older_commit_is_found_although_no_branch_points_at_it(upstream, tmp_path):
    commit = git(upstream, "rev-parse", "HEAD~1")
    files, _, _ = read_upstream(source(upstream, commit), tmp_path)
    assert sorted(files) == ["LICENSE", "old.txt"]


def test_a_cached_commit_needs_no_repository(upstream, tmp_path):
    commit = git(upstream, "rev-parse", "HEAD")
    pin = source(upstream, commit)
    first = read_upstream(pin, tmp_path)
    upstream.rename(tmp_path / "gone")
    assert read_upstream(pin, tmp_path) == first


def test_a_changed_cache_file_is_refused_without_asking_git(upstream, tmp_path):
    pin = source(upstream, git(upstream, "rev-parse", "HEAD"))
    read_upstream(pin, tmp_path)
    path = cache_path(pin, tmp_path)
    path.write_bytes(path.read_bytes().replace(b"echo\n", b"evil\n"))
    with pytest.raises(IntegrityError, match="tree"):
        read_upstream(pin, tmp_path)


def test_a_submodule_is_refused_by_name(upstream, tmp_path):
    git(upstream, "submodule", "add", "-q", str(upstream), "inner")
    git(upstream, "commit", "-qm", "three")
    with pytest.raises(DocumentError, match=r"inner.*gitlink"):
        read_upstream(source(upstream, git(upstream, "rev-parse", "HEAD")), tmp_path)
    assert not (tmp_path / "downloads").exists()


def test_a_pointer_of_git_lfs_is_refused_by_name(upstream, tmp_path):
    (upstream / "big.bin").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\n")
    git(upstream, "add", "big.bin")
    git(upstream, "commit", "-qm", "three")
    with pytest.raises(DocumentError, match=r"big\.bin.*lfs"):
        read_upstream(source(upstream, git(upstream, "rev-parse", "HEAD")), tmp_path)


def test_a_commit_that_is_not_there_says_url_and_next_step(upstream, tmp_path):
    with pytest.raises(EnvironmentMissing, match="upstream") as caught:
        read_upstream(source(upstream, "1" * 40), tmp_path)
    assert "memtrial sources import" in caught.value.hint


def test_a_helper_transport_is_never_started(tmp_path):
    pin = source(tmp_path, "1" * 40, url=f"ext::sh -c 'touch {tmp_path}/ran'")
    with pytest.raises(EnvironmentMissing):
        read_upstream(pin, tmp_path / "cache")
    assert not (tmp_path / "ran").exists()

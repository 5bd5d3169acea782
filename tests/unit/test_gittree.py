"""Tree ids are git's own, computed without git."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchestrator.core.errors import DocumentError
from orchestrator.core.gittree import FileEntry, blob_id, tree_id


def git(folder: Path, *arguments: str, stdin: bytes = b"") -> str:
    environment = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(
        ["git", "-C", str(folder), *arguments],
        input=stdin,
        capture_output=True,
        check=True,
        env=environment,
    )
    return done.stdout.decode().strip()


def git_tree_id(folder: Path, entries: list[FileEntry]) -> str:
    git(folder, "init", "--quiet", "--template=", ".")
    lines = b""
    for entry in entries:
        blob = git(folder, "hash-object", "-w", "--stdin", stdin=entry.data)
        lines += f"{entry.mode} {blob}\t{entry.path}".encode() + b"\0"
    git(folder, "read-tree", "--empty")
    git(folder, "update-index", "-z", "--add", "--index-info", stdin=lines)
    return git(folder, "write-tree")


def test_the_empty_tree_and_the_empty_blob_have_the_ids_that_git_documents() -> None:
    assert tree_id([]) == "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
    assert blob_id(b"") == "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"


def test_folders_sort_as_if_a_slash_stood_behind_them(tmp_path: Path) -> None:
    entries = [
        FileEntry("lib/a", "100644", b"1"),
        FileEntry("lib-x", "100644", b"2"),
        FileEntry("lib.py", "100755", b"3"),
        FileEntry("lib0", "120000", b"lib.py"),
    ]
    assert tree_id(entries) == git_tree_id(tmp_path, entries)


PARTS = st.text("ab-._0é", min_size=1, max_size=3).filter(lambda p: p not in {".", ".."})
PATHS = st.lists(PARTS, min_size=1, max_size=3).map("/".join)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.tuples(PATHS, st.sampled_from(["100644", "100755"]), st.binary(max_size=20)), max_size=6))  # fmt: skip
def test_any_tree_has_the_id_that_git_gives_it(
    tmp_path_factory: pytest.TempPathFactory, files: list[tuple[str, str, bytes]]
) -> None:
    entries: dict[str, FileEntry] = {}
    for path, mode, data in files:
        if not any(f"{path}/".startswith(f"{k}/") or k.startswith(f"{path}/") for k in entries):
            entries[path] = FileEntry(path, mode, data)  # type: ignore[arg-type]
    found = list(entries.values())
    assert tree_id(reversed(found)) == git_tree_id(tmp_path_factory.mktemp("repo"), found)


@pytest.mark.parametrize("paths", [("a", "a"), ("a", "a/b"), ("a/b", "a"), ("x/a/b", "x/a")])
def test_a_path_that_is_there_twice_or_is_file_and_folder_is_refused(
    paths: tuple[str, ...],
) -> None:
    with pytest.raises(DocumentError, match="each path once"):
        tree_id(FileEntry(path, "100644", b"") for path in paths)

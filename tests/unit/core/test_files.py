"""Promise: files are written whole, and reading cannot be led out of its folder."""

import os

import pytest

from orchestrator.core.errors import DocumentError, EnvironmentMissing
from orchestrator.core.files import (
    read_confined,
    relink,
    require_writable,
    safe_relative,
    write_atomic,
)


def test_an_atomic_write_replaces_and_leaves_nothing_beside(tmp_path):
    write_atomic(tmp_path / "a", b"one")
    write_atomic(tmp_path / "a", b"two")
    assert (tmp_path / "a").read_bytes() == b"two"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize(
    "path", ["", "/etc/passwd", "../x", "a/../b", "a//b", "./a", "a\\b", "a\0b"]
)
def test_paths_that_could_leave_the_folder_are_refused(path):
    with pytest.raises(DocumentError):
        safe_relative(path, where="test")


@pytest.mark.parametrize("through", ["link", "folder/inside"])
def test_links_are_not_followed(tmp_path, through):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "inside").write_text("secret")
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "link").symlink_to(outside / "inside")
    (inner / "folder").symlink_to(outside)
    with pytest.raises(DocumentError):
        read_confined(inner, through, max_bytes=100)


def test_a_pipe_is_refused_and_does_not_hang(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DocumentError):
        read_confined(tmp_path, "pipe", max_bytes=100)


def test_a_folder_is_refused_as_one(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(DocumentError, match="type d"):
        read_confined(tmp_path, "folder", max_bytes=10_000)


def test_a_file_over_the_bound_is_refused(tmp_path):
    (tmp_path / "big").write_bytes(b"x" * 101)
    with pytest.raises(DocumentError, match="at most 100 bytes"):
        read_confined(tmp_path, "big", max_bytes=100)


def test_a_folder_in_which_a_file_can_be_made_is_left_as_it_was(tmp_path):
    require_writable(tmp_path / "not" / "there", "runs")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_in_which_no_file_can_be_made_is_refused_with_the_systems_words(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(EnvironmentMissing, match=r"\(runs\), found: Not a directory") as refused:
        require_writable(tmp_path / "file", "runs")
    assert refused.value.reference == "folder-not-writable"


def test_a_link_is_pointed_elsewhere_in_one_step(tmp_path):
    for target in ("one", "two"):
        relink(tmp_path / "link", target)
        assert [(p.name, str(p.readlink())) for p in tmp_path.iterdir()] == [("link", target)]


def test_a_link_that_cannot_be_put_in_place_leaves_nothing_behind(tmp_path):
    (tmp_path / "link").mkdir()
    with pytest.raises(IsADirectoryError):
        relink(tmp_path / "link", "target")
    assert [path.name for path in tmp_path.iterdir()] == ["link"]

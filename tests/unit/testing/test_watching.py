"""Promise: the tripwire names the file that was changed, also by a name relative to an open folder."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.testing.watching import Watcher


def _removes(folder: Path) -> None:
    inner = folder / "inner"
    inner.mkdir()
    (inner / "file").touch()
    shutil.rmtree(inner)


def _renames(folder: Path) -> None:
    (folder / "one").touch()
    (folder / "one").rename(folder / "two")


def _links(folder: Path) -> None:
    (folder / "two").symlink_to("/elsewhere")


def _relative(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.mkdir("two", dir_fd=fd)
    finally:
        os.close(fd)


@pytest.mark.parametrize(
    ("work", "named"),
    [(_removes, "inner/file"), (_renames, "two"), (_links, "two"), (_relative, "two")],
)
def test_a_change_is_told_by_its_own_path(tmp_path, work: Callable[[Path], None], named: str):
    watcher = Watcher()
    with watcher.watching() as seen:
        thread = threading.Thread(target=work, args=(tmp_path,))
        thread.start()
        thread.join()
    assert tmp_path / named in seen.written
    strays = [path for path in seen.written if not path.is_relative_to(tmp_path)]
    assert not strays

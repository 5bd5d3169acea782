"""Promise: an author gets the pinned checkout as git sees it, in a folder that did not exist."""

from __future__ import annotations

import subprocess

import pytest

from orchestrator.core.errors import UsageError
from orchestrator.core.places import cache_root, fixtures_root
from orchestrator.sources.checkout import materialise, write_checkout
from orchestrator.sources.loader import load_task


def test_a_checkout_is_written_with_its_one_commit_into_a_new_folder_only(tmp_path):
    task = load_task(fixtures_root(), "ferrytimes-service-day")
    checkout = materialise(task.source, fixtures=fixtures_root(), cache=cache_root())
    folder = tmp_path / "new"
    write_checkout(checkout, folder)
    said = subprocess.run(["git", "-C", str(folder), "log", "--format=%H %T"], capture_output=True, text=True, check=True)  # fmt: skip
    assert said.stdout.split() == [task.source.expect.commit, task.source.expect.tree]
    status = subprocess.run(["git", "-C", str(folder), "status", "--porcelain"], capture_output=True, text=True, check=True)  # fmt: skip
    assert status.stdout == ""
    with pytest.raises(UsageError):
        write_checkout(checkout, folder)

"""Promise: a source is dirty exactly with files that can change a result, and says which."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from orchestrator.sources.revision import source_state


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    (tmp_path / "orchestrator").mkdir()
    (tmp_path / "orchestrator" / "a.py").write_text("a = 1\n")
    (tmp_path / "README.md").write_text("x\n")
    (tmp_path / ".gitignore").write_text("__pycache__/\n")
    for words in (
        ["init", "-q"],
        ["add", "-A"],
        ["-c", "user.name=t", "-c", "user.email=t@example.invalid", "commit", "-q", "-m", "one"],
    ):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    return tmp_path


def test_a_plan_beside_the_sources_does_not_make_them_dirty(clone):
    before = source_state(clone)
    (clone / "plan.json").write_text("{}")
    (clone / "notes").mkdir()
    (clone / "notes" / "x.py").write_text("")
    (clone / "orchestrator" / "__pycache__").mkdir()
    (clone / "orchestrator" / "__pycache__" / "a.pyc").write_text("")
    (clone / "orchestrator" / "a.py").touch()
    assert source_state(clone) == before
    assert not before.dirty


@pytest.mark.parametrize(
    "name",
    ["orchestrator/new.py", "images/x", "fixtures/tasks/t", "pyproject.toml", "requirements/r"],
)
def test_an_untracked_file_where_results_come_from_does(clone, name):
    (clone / name).parent.mkdir(parents=True, exist_ok=True)
    (clone / name).write_text("x")
    assert source_state(clone).changed == (name,)


def test_a_changed_tracked_file_does_wherever_it_is(clone):
    (clone / "README.md").write_text("y\n")
    (clone / "orchestrator" / "a.py").unlink()
    assert source_state(clone).changed == ("README.md", "orchestrator/a.py")

"""Promise: the kit over a program takes the arm that is named, as it is pinned, and leaves the environment alone."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from orchestrator.core.errors import IntegrityError, UsageError
from orchestrator.memory.command import CommandAdapter
from orchestrator.testing import programs
from orchestrator.testing.programs import program_adapter

EXAMPLE = Path(__file__).resolve().parents[3] / "docs" / "how-to" / "memory-example"


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """A folder of a user's own, and no engine."""
    monkeypatch.setattr(programs, "_start", lambda: lambda *_: None)
    return Path(shutil.copytree(EXAMPLE, tmp_path / "mine")) / "conditions.json"


def test_the_named_arm_is_spoken_with_as_a_program(mine):
    assert isinstance(program_adapter(mine, "cue_lines_e2e"), CommandAdapter)


def test_a_program_that_is_not_the_pinned_one_is_refused(mine):
    (mine.parent / "program" / "more.txt").write_text("x")
    with pytest.raises(IntegrityError, match="cue_lines_e2e"):
        program_adapter(mine, "cue_lines_e2e")


def test_an_arm_that_the_file_has_not_is_refused_by_name(mine):
    with pytest.raises(UsageError, match="cue_line"):
        program_adapter(mine, "cue_line")


@pytest.mark.parametrize("before", [None, "/elsewhere/conditions.json"])
def test_the_environment_is_afterwards_as_it_was(mine, monkeypatch, before):
    monkeypatch.delenv("MEMTRIAL_CONDITIONS", raising=False)
    if before is not None:
        monkeypatch.setenv("MEMTRIAL_CONDITIONS", before)
    program_adapter(mine, "cue_lines_e2e")
    assert os.environ.get("MEMTRIAL_CONDITIONS") == before

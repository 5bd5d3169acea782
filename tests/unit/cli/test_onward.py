"""Promise: the next command that a ceremony names works on the clone and the machine's folder that it was given."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import pytest

from orchestrator.cli.main import main

SHIPPED = Path(__file__).resolve().parents[3] / "approvals" / "demonstration"


def named_next(told: str) -> list[str]:
    (line,) = [line for line in told.splitlines() if line.startswith("next: ")]
    return shlex.split(line.removeprefix("next: "))[1:]


@pytest.fixture
def clone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    folder: Path = shutil.copytree(SHIPPED, tmp_path / "a clone")
    for path in (folder / "keys").glob("*.pem"):
        path.chmod(0o600)
    words = ["trust", "refresh", "--curator", str(folder / "keys" / "curator-1.pem")]
    for name in ("owner-1", "owner-2"):
        words += ["--owner", str(folder / "keys" / f"{name}.pem")]
    assert main([*words, "--repository", str(folder)]) == 0
    assert named_next(capsys.readouterr().out) == ["trust", "status", "--repository", str(folder)]
    return folder


def test_the_way_from_one_ceremony_to_the_next_stays_in_the_named_clone(clone, capsys):
    assert main(["trust", "status", "--repository", str(clone)]) == 0
    words = named_next(capsys.readouterr().out)
    assert words == ["approve", "status", "--repository", str(clone)]
    assert main(words) == 0


def test_the_machines_folder_is_named_again_to_commands_that_read_it(clone, capsys, tmp_path):
    given = ["--repository", str(clone), "--system", str(tmp_path / "system")]
    assert main(["approve", "status", *given]) == 0
    words = named_next(capsys.readouterr().out)
    assert words[:2] == ["approve", "propose"]
    assert words[-4:] == given


def test_a_command_for_the_clone_at_hand_needs_no_more_words(clone, capsys, monkeypatch):
    monkeypatch.setattr("orchestrator.pipeline.gating.repository_root", lambda: clone)
    assert main(["trust", "status"]) == 0
    assert named_next(capsys.readouterr().out) == ["approve", "status"]

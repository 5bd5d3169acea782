"""Promise: the wheel works outside a clone, with fixtures and image recipes inside."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.docker, pytest.mark.network]
ROOT = Path(__file__).resolve().parents[2]


def test_the_wheel_runs_a_trial_in_an_empty_folder(tmp_path):
    """Installs the built wheel beside the locked dependencies and runs one real trial with it."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    place = tmp_path / "installed"
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--no-index",
            "--target",
            str(place),
            str(wheel),
        ],
        check=True,
        capture_output=True,
    )
    empty = tmp_path / "empty"
    empty.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(place), "PYTHONSAFEPATH": "1"}
    where = subprocess.run(
        [sys.executable, "-c", "import orchestrator; print(orchestrator.__file__)"],
        env=environment,
        cwd=empty,
        capture_output=True,
        text=True,
        check=True,
    )
    assert str(place) in where.stdout

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "orchestrator", *words],
            env=environment,
            cwd=empty,
            capture_output=True,
            text=True,
            check=False,
        )

    made = run(
        "plan",
        "--agent",
        "oracle",
        "--task",
        "depotfeed-returns",
        "--condition",
        "curated_file_budgeted",
        "--out",
        "plan.json",
    )
    assert made.returncode == 0, made.stderr
    finished = run("run", "plan.json")
    assert finished.returncode == 0, finished.stderr
    report = json.loads((empty / "results" / "latest" / "report.json").read_bytes())
    assert [trial["status"] for trial in report["trials"]] == ["resolved"]
    assert report["source_revision"].startswith("dist:")

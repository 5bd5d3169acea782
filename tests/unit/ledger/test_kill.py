"""Promise: after SIGKILL at any instant the ledger holds every acknowledged record and nothing made up."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
KILLS = 200


def test_two_hundred_kills_lose_no_acknowledged_record_and_add_none(tmp_path, command_environment):
    finished = subprocess.run(
        [sys.executable, "-m", "tests.unit.ledger.kill_writer", str(tmp_path), str(KILLS), "20"],
        cwd=ROOT,
        env=command_environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    counts = json.loads(finished.stdout)
    assert counts["kills"] == KILLS
    # The kills have to hit writers at work, or they would prove nothing.
    assert counts["acknowledged"] >= KILLS
    assert counts["unacknowledged"] > 0

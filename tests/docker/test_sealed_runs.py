"""Promise: a real run ends as an evidence bundle that verifies, also after it was sealed again."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest

pytestmark = pytest.mark.docker


def memtrial(*words: str, results) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "orchestrator", *words],
        env={**os.environ, "MEMTRIAL_RESULTS": str(results)},
        capture_output=True,
        text=True,
        check=False,
    )


def verified(keyid: str, results) -> dict[str, int]:
    """Verifies the newest run, and returns how much each check covered."""
    answer = memtrial("verify", "latest", "--keyid", keyid, "--json", results=results)
    told = json.loads(answer.stdout)
    assert (answer.returncode, told["standing"]) == (0, "authentic"), told["checks"]
    assert told["key_label"] == "ephemeral-local"
    in_part = [check for check in told["checks"] if check["status"] == "partly"]
    assert not in_part, "every file that a run writes is known"
    return {check["name"]: check["count"] for check in told["checks"]}


def keyid_of(finished: subprocess.CompletedProcess[str]) -> str:
    assert finished.returncode == 0, finished.stderr
    found = re.search(r"^key id: ([0-9a-f]{64})$", finished.stdout, re.MULTILINE)
    assert found is not None, finished.stdout
    assert "memtrial verify " in finished.stdout.splitlines()[-1]
    return found[1]


def test_a_run_is_sealed_and_verifies_to_the_last_verdict_also_sealed_again(results, tmp_path):
    plan = tmp_path / "plan.json"
    made = memtrial(
        *("plan", "--agent", "follower", "--task", "depotfeed-returns"),
        *("--condition", "no_memory", "--condition", "curated_file_budgeted"),
        *("--out", str(plan)),
        results=results,
    )
    assert made.returncode == 0, made.stderr
    first = keyid_of(memtrial("run", str(plan), results=results))
    assert verified(first, results)["verdicts"] == 2
    again = memtrial("resume", "latest", "--full", results=results)
    assert again.returncode == 0, again.stderr
    assert "nothing is left to run" in again.stderr
    assert verified(first, results)["checkpoint"] == 1, "a whole run keeps its seal"
    second = keyid_of(memtrial("seal", "latest", results=results))
    counts = verified(second, results)
    assert counts["checkpoint"] == 2, "the first seal's checkpoint is kept and continued"

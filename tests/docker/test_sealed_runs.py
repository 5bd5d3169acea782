"""Promise: a real run ends as an evidence bundle that verifies, also after it was taken up again."""

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


def test_a_run_and_its_resumption_are_sealed_and_verify_to_the_last_verdict(results, tmp_path):
    plan = tmp_path / "plan.json"
    made = memtrial(
        *("plan", "--agent", "follower", "--task", "depotfeed-returns"),
        *("--condition", "no_memory", "--condition", "curated_file_budgeted"),
        *("--out", str(plan)),
        results=results,
    )
    assert made.returncode == 0, made.stderr
    counts: dict[str, int] = {}
    for words in (("run", str(plan)), ("resume", "latest", "--full")):
        finished = memtrial(*words, results=results)
        assert finished.returncode == 0, finished.stderr
        found = re.search(r"^key id: ([0-9a-f]{64})$", finished.stdout, re.MULTILINE)
        assert found is not None, finished.stdout
        assert "memtrial verify " in finished.stdout.splitlines()[-1]
        answer = memtrial("verify", "latest", "--keyid", found[1], "--json", results=results)
        told = json.loads(answer.stdout)
        assert (answer.returncode, told["standing"]) == (0, "authentic"), told["checks"]
        counts = {check["name"]: check["count"] for check in told["checks"]}
        assert counts["verdicts"] == 2
        assert told["key_label"] == "ephemeral-local"
    assert counts["checkpoint"] == 2, "the first seal's checkpoint is kept and continued"

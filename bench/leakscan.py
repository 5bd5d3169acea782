"""Proof of the leak scan: every planted cell is found, clean trials raise no alarm, and what it costs.

Runs the matrix of places and encodings as tests, then clean trials over the smoke tasks under all
conditions and agents with real containers. Writes a dated JSON below results/proofs. The price is a ratio to
the bare container steps of the same trials; absolute times lie on a shared machine.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MATRIX = "tests/unit/pipeline/test_leak_matrix.py"
TRIALS = int(os.environ.get("MEMTRIAL_PROOF_TRIALS", "50"))


def matrix() -> dict[str, int]:
    """Runs the matrix; returns how many cells there are and how many were found."""
    finished = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-k", "test_a_planted_literal_is_found", MATRIX],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    passed = re.search(r"(\d+) passed", finished.stdout)
    failed = re.search(r"(\d+) failed", finished.stdout)
    found, missed = (int(match[1]) if match else 0 for match in (passed, failed))
    return {"cells": found + missed, "found": found}


def clean_trials() -> dict[str, object]:
    """Runs clean trials and returns how many there were, their alarms, and the scan's share of the time."""
    from orchestrator.agents.scripted import SCRIPTED_AGENTS
    from orchestrator.cli.live import Progress
    from orchestrator.core.places import cache_root
    from orchestrator.ledger.blobs import BlobStore
    from orchestrator.ledger.chain import read_entries
    from orchestrator.model.isolation import Isolation, Screening
    from orchestrator.model.record import AttemptEnded, Stage, StageDone
    from orchestrator.pipeline.guards import host_canary
    from orchestrator.pipeline.options import PlanRequest
    from orchestrator.pipeline.run import Run
    from orchestrator.pipeline.setup import benches, make_plan
    from orchestrator.sandbox.adapter import DockerSandbox
    from orchestrator.sandbox.engine import connect, describe
    from orchestrator.sandbox.identity import installation_id

    watch = Progress()
    say = watch.say
    request = PlanRequest(agents=SCRIPTED_AGENTS)
    size = len(make_plan(request, say, install=True).trials)
    plan = make_plan(PlanRequest(agents=SCRIPTED_AGENTS, epochs=-(-TRIALS // size)), say)
    client = connect()
    run = Run.create(ROOT / "results", plan, engine=describe(client), workers=2)
    secret = host_canary(run.folder)
    sandbox = DockerSandbox(client, installation_id(cache_root()))
    make_bench = benches(plan, sandbox, client, secret=secret)
    run.execute(
        make_bench,
        workers=2,
        progress=lambda end: say(f"{end.done}/{end.total} {end.trial.key}: {end.outcome.value}"),
        watch=watch,
    )
    run.close()
    blobs = BlobStore(run.folder / "blobs")
    entries = [entry.body for entry in read_entries(run.folder / "ledger.jsonl")[0]]
    stages = [body for body in entries if isinstance(body, StageDone)]
    alarms = 0
    for body in stages:
        if body.stage is Stage.ISOLATE:
            proof = Isolation.parse(blobs.get(body.document_sha256), where="isolate")
            alarms += bool(proof.findings or proof.differences)
        elif body.stage is Stage.SCREEN:
            screening = Screening.parse(blobs.get(body.document_sha256), where="screen")
            alarms += bool(screening.findings)
    bare_ms = sum(body.container_ms for body in stages)
    scan_ms = sum(body.wall_ms for body in stages if body.stage in {Stage.ISOLATE, Stage.SCREEN})
    outcomes = [body.outcome.value for body in entries if isinstance(body, AttemptEnded)]
    return {
        "trials": len(plan.trials),
        "attempts": len(outcomes),
        "screened": sum(body.stage is Stage.SCREEN for body in stages),
        "outcomes": {name: outcomes.count(name) for name in sorted(set(outcomes))},
        "alarms": alarms,
        "scan_to_container_ratio": round(scan_ms / bare_ms, 4) if bare_ms else None,
        "engine": describe(client),
    }


def main() -> int:
    cells = matrix()
    trials = clean_trials()
    result = {
        "proof": "leakscan",
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "matrix": cells,
        "clean": trials,
        "python": platform.python_version(),
        "load": round(os.getloadavg()[0], 2),
    }
    folder = ROOT / "results" / "proofs"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"leakscan-{result['date']}.json"
    path.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(result, indent=2))
    whole = cells["found"] == cells["cells"] >= 60
    quiet = trials["alarms"] == 0 and trials["screened"] == trials["trials"]
    return 0 if whole and quiet else 1


if __name__ == "__main__":
    sys.exit(main())

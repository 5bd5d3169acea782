"""Proof: `memtrial verify` of a whole bundle grows in proportion to its records, and stays below 1 GB.

Seals played runs whose trials were all given up after faults (three lines an attempt pair, no blobs of stages),
and verifies each in a process of its own. Writes results/proofs/verifying-DATE.json; exit 1 when time per
record grows by more than half, or memory reaches 1 GB.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.evidence import MAX_GROWTH, MAX_MEMORY_BYTES, peak_bytes
from orchestrator.audit.trust import Trust
from orchestrator.audit.verify import verify_bundle
from orchestrator.audit.view import FolderView
from orchestrator.core.canonical import sha256_hex
from orchestrator.core.clock import run_stamp
from orchestrator.core.files import write_atomic
from orchestrator.ledger.chain import GENESIS_SHA256
from orchestrator.model.outcome import Outcome
from orchestrator.model.record import AttemptEnded, AttemptStarted, Body, LedgerEntry, RunStarted
from orchestrator.pipeline.options import PlanRequest
from tests.recorded import make_plan, seal, write_reports

ROOT = Path(__file__).resolve().parents[1]
AT = "2026-11-30T00:00:00.000Z"
ATTEMPTS = 3


def given_up(folder: Path, epochs: int) -> int:
    """Writes and seals a run of sixteen trials an epoch; returns how many records it has."""
    arms = ("no_memory", "curated_file_budgeted")
    tasks = (
        *("depotfeed-returns", "humanize-transfer-eta"),
        *("cachetools-account-key", "click-time-window"),
    )
    agents = ("oracle", "follower")
    plan = make_plan(PlanRequest(agents=agents, tasks=tasks, conditions=arms, epochs=epochs))
    started = RunStarted(
        run_id=folder.name, plan_sha256=plan.digest_sha256(), engine="played", workers=1
    )
    bodies: list[Body] = [started]
    for trial in plan.trials:
        for attempt in range(1, ATTEMPTS + 1):
            ended = AttemptEnded(
                trial=trial.key,
                attempt=attempt,
                outcome=Outcome.INFRA_ERROR,
                verdict_sha256=None,
                error_reference="engine-gone",
                error="the engine was gone",
                wall_ms=1,
                container_ms=1,
            )
            bodies += [AttemptStarted(trial=trial.key, attempt=attempt), ended]
    previous = GENESIS_SHA256
    (folder / "blobs").mkdir(parents=True)
    (folder / "plan.json").write_bytes(plan.canonical())
    with (folder / "ledger.jsonl").open("wb") as stream:
        for seq, body in enumerate(bodies):
            line = LedgerEntry(seq=seq, prev_sha256=previous, at=AT, body=body).canonical()
            previous = sha256_hex(line)
            stream.write(line + b"\n")
    write_reports(folder)
    seal(folder)
    return len(bodies)


def verify_once(folder: Path) -> dict[str, object]:
    """Verifies a bundle here; returns processor seconds, peak memory and the exit code."""
    began = time.process_time()
    answer = verify_bundle(FolderView(folder), Trust(now="2099-01-01T00:00:00Z"), name="b")
    spent = time.process_time() - began
    failed = [check.name for check in answer.failed]
    return {"cpu_s": round(spent, 2), "peak_bytes": peak_bytes(), "failed": failed}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, nargs="*", default=[60, 250, 1000])
    parser.add_argument("--once", type=Path)
    arguments = parser.parse_args()
    if arguments.once:
        print(json.dumps(verify_once(arguments.once)))
        return 0
    found = []
    for epochs in arguments.epochs:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name) / "big"
            records = given_up(folder, epochs)
            words = [sys.executable, "-m", "bench.verifying", "--once", str(folder)]
            done = subprocess.run(words, capture_output=True, text=True, check=True, cwd=ROOT)
            figure = {"records": records, **json.loads(done.stdout)}
        print(json.dumps(figure), flush=True)
        found.append(figure)
    first, last = found[0], found[-1]
    growth = last["cpu_s"] / last["records"] / (first["cpu_s"] / first["records"])
    figures = {"sizes": found, "growth_per_record": round(growth, 2)}
    out = ROOT / "results" / "proofs" / f"verifying-{run_stamp()}.json"
    write_atomic(out, json.dumps(figures, indent=2, sort_keys=True).encode())
    print(f"growth per record {growth:.2f}; written: {out.relative_to(ROOT)}")
    sound = not any(figure["failed"] for figure in found)
    return 0 if sound and growth <= MAX_GROWTH and last["peak_bytes"] < MAX_MEMORY_BYTES else 1


if __name__ == "__main__":
    sys.exit(main())

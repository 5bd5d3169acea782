"""Proof of the evidence bundle at size: 144 trials under 5,000 changes, and a ledger of 100,000 records.

Prints progress, figures and growth, writes results/proofs/evidence-DATE.json; exit 1 when a change passes,
when time does not grow in proportion, or when memory reaches 1 GB. Run it again after an interruption and
it goes on (mutations.py). `--records N`, `--mutations N` and `--insider N` make it smaller.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from bench.mutations import bundle_figures
from orchestrator.core.canonical import sha256_hex
from orchestrator.core.clock import run_stamp
from orchestrator.core.files import write_atomic
from orchestrator.core.merkle import MerkleTree, leaf_hash
from orchestrator.ledger.chain import GENESIS_SHA256, Ledger, Prefix
from orchestrator.model.record import AttemptStarted, LedgerEntry

ROOT = Path(__file__).resolve().parents[1]

SYNCED_APPENDS = 500
MAX_MEMORY_BYTES = 10**9
MAX_GROWTH = 1.5


def timed_s(run: Callable[[], object]) -> float:
    """Returns processor seconds: growth must not depend on what else this machine does."""
    began = time.process_time()
    run()
    return time.process_time() - began


def peak_bytes() -> int:
    """Returns this process's own peak of resident memory; `getrusage` would inherit its parent's."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


def write_lines(path: Path, count: int) -> None:
    """Writes a sound ledger without a sync per line; appending with syncs is measured apart."""
    previous = GENESIS_SHA256
    with path.open("wb") as stream:
        for seq in range(count):
            entry = LedgerEntry(
                seq=seq,
                prev_sha256=previous,
                at="2026-11-30T00:00:00.000Z",
                body=AttemptStarted(trial=f"task-{seq % 48}/condition/agent/e1", attempt=seq + 1),
            )
            line = entry.canonical()
            previous = sha256_hex(line)
            stream.write(line + b"\n")


def open_figures(path: Path, *, signed: bool) -> dict[str, float]:
    """Opens a ledger in a process of its own, fully or from a signed size; returns seconds and memory."""
    told = subprocess.run(
        [
            sys.executable,
            "-m",
            "bench.evidence",
            "--open",
            str(path),
            *(["--signed"] if signed else []),
        ],
        check=True,
        capture_output=True,
        text=True,
    )
    figures: dict[str, float] = json.loads(told.stdout)
    return figures


def open_once(path: Path, *, signed: bool) -> None:
    prefix = None
    if signed:
        tree = MerkleTree(leaf_hash(line) for line in path.read_bytes().splitlines())
        prefix = Prefix(tree.size, tree.root())
        del tree

    def open_and_close() -> None:
        Ledger.open_for_append(path, signed=prefix)[0].close()

    seconds = timed_s(open_and_close)
    print(json.dumps({"seconds": round(seconds, 3), "peak_bytes": peak_bytes()}))


def _thousand_proofs(tree: MerkleTree) -> None:
    rng = random.Random(tree.size)
    for _ in range(1000):
        tree.inclusion(rng.randrange(tree.size))


def ledger_figures(folder: Path, records: int) -> dict[str, Any]:
    """Measures appends, opening and proofs at three sizes."""
    ledger = Ledger.create(folder / "synced.jsonl")

    def append_all() -> None:
        for number in range(SYNCED_APPENDS):
            ledger.append(AttemptStarted(trial="t", attempt=number + 1))

    began = time.perf_counter()
    append_all()
    append_s = time.perf_counter() - began
    ledger.close()
    sizes: dict[int, dict[str, Any]] = {}
    for count in (records // 4, records // 2, records):
        path = folder / f"{count}.jsonl"
        write_lines(path, count)
        tree = MerkleTree(leaf_hash(line) for line in path.read_bytes().splitlines())
        proof_s = timed_s(partial(_thousand_proofs, tree))
        sizes[count] = {
            "full": open_figures(path, signed=False),
            "signed": open_figures(path, signed=True),
            "proof_us": round(proof_s * 1000, 1),
            "bytes": path.stat().st_size,
        }
        path.unlink()
    small, large = sizes[records // 4], sizes[records]
    return {
        "append_per_s": round(SYNCED_APPENDS / append_s, 1),
        "sizes": sizes,
        # 1.0 is proportional: four times the records take four times the time.
        "growth_full": round(large["full"]["seconds"] / small["full"]["seconds"] / 4, 2),
        "growth_signed": round(large["signed"]["seconds"] / small["signed"]["seconds"] / 4, 2),
        "peak_bytes": max(item["full"]["peak_bytes"] for item in sizes.values()),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--mutations", type=int, default=5_000)
    parser.add_argument("--insider", type=int, default=60)
    parser.add_argument("--open", type=Path)
    parser.add_argument("--signed", action="store_true")
    arguments = parser.parse_args()
    if arguments.open:
        open_once(arguments.open, signed=arguments.signed)
        return 0
    bundle = bundle_figures(arguments.mutations, arguments.insider)
    with tempfile.TemporaryDirectory() as name:
        ledger = ledger_figures(Path(name), arguments.records)
    figures = {
        "bundle": bundle,
        "ledger": ledger,
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
    }
    print(json.dumps(figures, indent=2))
    out = ROOT / "results" / "proofs" / f"evidence-{run_stamp()}.json"
    write_atomic(out, json.dumps(figures, indent=2, sort_keys=True).encode())
    print(f"written: {out.relative_to(ROOT)}")
    good = (
        not bundle["missed"]
        and ledger["peak_bytes"] < MAX_MEMORY_BYTES
        and max(ledger["growth_full"], ledger["growth_signed"]) <= MAX_GROWTH
    )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

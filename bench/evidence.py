"""Proof of the evidence bundle at size: 144 trials under 5,000 changes, and a ledger of 100,000 records.

Prints figures and growth, writes results/proofs/evidence-DATE.json; exit 1 when a change passes, when time
does not grow in proportion, or when memory reaches 1 GB. `--records N` and `--mutations N` make it smaller.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from orchestrator.audit.trust import Trust
from orchestrator.audit.verify import verify_bundle
from orchestrator.audit.view import FolderView, MemoryView
from orchestrator.core.canonical import sha256_hex
from orchestrator.core.clock import run_stamp
from orchestrator.core.files import write_atomic
from orchestrator.core.keys import SigningKey
from orchestrator.core.merkle import MerkleTree, leaf_hash
from orchestrator.ledger.chain import GENESIS_SHA256, Ledger, Prefix
from orchestrator.model.record import AttemptStarted, LedgerEntry
from orchestrator.pipeline.seal import Signer
from tests.evidence.tamper import KINDS, mutate, reseal_list
from tests.recorded import MANY, files_of, record_run, seal

ROOT = Path(__file__).resolve().parents[1]

NOW = "2099-01-01T00:00:00Z"
SYNCED_APPENDS = 500
INSIDER = 10
FILES_PER_KIND = 60
MAX_MEMORY_BYTES = 10**9
MAX_GROWTH = 1.5


def timed_s(run: Callable[[], object]) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def bundle_figures(folder: Path, mutations: int) -> dict[str, Any]:
    """Seals, verifies and changes a bundle of 144 trials."""
    run = record_run(folder / "results", MANY)
    key = SigningKey.generate()
    seal_s = timed_s(lambda: seal(run, Signer(key, "operator")))
    files, trust = files_of(run), Trust(now=NOW, keyid=key.public.keyid)
    answer = verify_bundle(FolderView(run), trust, name="sound")
    verify_s = timed_s(lambda: verify_bundle(FolderView(run), trust, name="sound"))
    rng = random.Random(144)
    missed = [] if answer.exit_code == 0 else ["the untouched bundle"]

    def passes(changed: dict[str, bytes]) -> bool:
        return verify_bundle(MemoryView(changed), trust, name="mutant").exit_code == 0

    for _ in range(mutations):
        changed, what = mutate(files, rng)
        missed += [what] if passes(changed) else []
    structural = 0
    for kind, change in KINDS.items():
        for name in rng.sample(sorted(files), FILES_PER_KIND):
            changed = change(dict(files), name, rng)
            if changed != files:
                structural += 1
                missed += [f"{kind} {name}"] if passes(changed) else []
    record = {
        n: d for n, d in files.items() if n.startswith(("ledger", "report", "proofs/", "attest"))
    }
    for _ in range(INSIDER):
        changed, what = mutate(record, rng)
        if not what.startswith(("copy", "add beside")) and passes(
            reseal_list({**{n: d for n, d in files.items() if n not in record}, **changed}, key)
        ):
            missed.append(f"insider: {what}")
    copy = folder / "copy"
    shutil.copytree(run, copy)
    seal(copy, Signer(SigningKey.generate(), "operator"))
    missed += ["signed anew"] if passes(files_of(copy)) else []
    return {
        "trials": 144,
        "records": next(c.count for c in answer.checks if c.name == "ledger"),
        "statements": next(c.count for c in answer.checks if c.name == "statements"),
        "files": len(files),
        "bytes": sum(map(len, files.values())),
        "seal_s": round(seal_s, 2),
        "verify_s": round(verify_s, 2),
        "random_mutations": mutations,
        "structural_mutations": structural,
        "insider_mutations": INSIDER,
        "missed": missed,
    }


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
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"seconds": round(seconds, 3), "peak_bytes": peak}))


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

    append_s = timed_s(append_all)
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
    parser.add_argument("--open", type=Path)
    parser.add_argument("--signed", action="store_true")
    arguments = parser.parse_args()
    if arguments.open:
        open_once(arguments.open, signed=arguments.signed)
        return 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        figures = {
            "ledger": ledger_figures(folder, arguments.records),
            "bundle": bundle_figures(folder, arguments.mutations),
        }
    print(json.dumps(figures, indent=2))
    out = ROOT / "results" / "proofs" / f"evidence-{run_stamp()}.json"
    write_atomic(out, json.dumps(figures, indent=2, sort_keys=True).encode())
    print(f"written: {out.relative_to(ROOT)}")
    ledger, bundle = figures["ledger"], figures["bundle"]
    good = (
        not bundle["missed"]
        and ledger["peak_bytes"] < MAX_MEMORY_BYTES
        and max(ledger["growth_full"], ledger["growth_signed"]) <= MAX_GROWTH
    )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

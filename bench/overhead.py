"""What memtrial adds to the bare container steps, as a ratio measured in one run.

Each round runs one trial (oracle, no_memory, the vendored task) and compares its wall time with the time
in which at least one of its container steps was under way. Absolute times lie on a shared machine; only
the ratio is a result. Exit 1 above the bound, which is loose on purpose.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import sys
import tempfile
import time
from pathlib import Path

ROUNDS = int(os.environ.get("MEMTRIAL_BENCH_ROUNDS", "8"))
WARM_UP = 1
BOUND = 2.0


def main() -> int:
    from orchestrator.cli.live import Progress
    from orchestrator.core.places import cache_root
    from orchestrator.ledger.blobs import BlobStore
    from orchestrator.ledger.chain import Ledger
    from orchestrator.pipeline.journal import Journal
    from orchestrator.pipeline.options import PlanRequest
    from orchestrator.pipeline.setup import benches, make_plan
    from orchestrator.pipeline.trial import run_trial
    from orchestrator.sandbox.adapter import DockerSandbox
    from orchestrator.sandbox.engine import connect, describe
    from orchestrator.sandbox.identity import installation_id

    say = Progress().say
    request = PlanRequest(
        agents=("oracle",), tasks=("depotfeed-returns",), conditions=("no_memory",)
    )
    plan = make_plan(request, say, install=True)
    client = connect()
    make_bench = benches(
        plan, DockerSandbox(client, installation_id(cache_root())), client, secret="bench"
    )
    ratios: list[float] = []
    walls: list[float] = []
    load_before = os.getloadavg()[0]
    for round_number in range(ROUNDS + WARM_UP):
        with tempfile.TemporaryDirectory() as folder:
            ledger = Ledger.create(Path(folder) / "ledger.jsonl")
            journal = Journal(ledger, BlobStore(Path(folder) / "blobs"), plan.trials[0].key, 1)
            began = time.monotonic()
            verdict, _ = run_trial(make_bench(plan.trials[0]), journal)
            wall = time.monotonic() - began
            ledger.close()
        if not verdict.resolved:
            say("bench: the trial was not resolved; nothing to measure")
            return 1
        if round_number >= WARM_UP:
            bare = journal.container_ms_total / 1000
            ratios.append(wall / bare)
            walls.append(wall)
            say(
                f"round {round_number}: trial {wall:.2f} s, of which container steps {bare:.2f} s, ratio {wall / bare:.3f}"
            )
    result = {
        "rounds": ROUNDS,
        "ratio_median": round(statistics.median(ratios), 3),
        "ratio_max": round(max(ratios), 3),
        "added_ms_median": round(
            statistics.median(w * 1000 - w * 1000 / r for w, r in zip(walls, ratios, strict=True))
        ),
        "bound": BOUND,
        "engine": describe(client),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "load_before": round(load_before, 2),
        "load_after": round(os.getloadavg()[0], 2),
    }
    print(json.dumps(result, indent=2))
    return 0 if statistics.median(ratios) <= BOUND else 1


if __name__ == "__main__":
    sys.exit(main())

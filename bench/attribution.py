"""Proof of attribution: one fault planted for each stage and failure, over the pack and once in real containers.

Writes a dated JSON below results/proofs and prints what was planted and what was charged. Exit 1 if one trial
of the follower is charged to another stage, or memory is blamed where the oracle arm fails too.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from pathlib import Path

from orchestrator.core.clock import run_stamp
from orchestrator.core.places import cache_root, fixtures_root, results_root
from orchestrator.memory.tokens import TokenCounter
from orchestrator.model.attribution import STAGE_OF, Failure
from orchestrator.model.report import RunReport
from orchestrator.pipeline.guards import Guards, host_canary
from orchestrator.pipeline.options import PlanRequest
from orchestrator.pipeline.run import Run
from orchestrator.pipeline.setup import make_plan
from orchestrator.report.build import build_report
from orchestrator.report.charges import render_charges
from orchestrator.sandbox.adapter import DockerSandbox
from orchestrator.sandbox.engine import connect
from orchestrator.sandbox.identity import installation_id
from orchestrator.sources.loader import list_tasks, load_task
from tests import sabotage

IN_CONTAINERS = ("cachetools-account-key",)


def over_the_pack() -> dict[str, object]:
    """Plants every fault in every task, without containers; returns the counts by failure."""
    counter = TokenCounter()
    rows: dict[str, Counter[str]] = {failure.value: Counter() for failure in Failure}
    blamed = 0
    for task_id in list_tasks(fixtures_root()):
        task = load_task(fixtures_root(), task_id)
        for failure in Failure:
            if not sabotage.applies(failure, task):
                continue
            trial = sabotage.rehearsed(task, sabotage.arm_of(failure), counter)
            found = trial.charged(True)
            right = found.stage is STAGE_OF[failure]
            exact = found.failure is failure
            rows[failure.value].update(
                {"planted": 1, "stage_named": int(right), "failure_named": int(exact)}
            )
            blamed += trial.charged(False).to != "not_memory"
    return {
        "faults": {name: dict(row) for name, row in rows.items()},
        "planted": sum(row["planted"] for row in rows.values()),
        "stage_named": sum(row["stage_named"] for row in rows.values()),
        "failure_named": sum(row["failure_named"] for row in rows.values()),
        "blamed_though_the_oracle_fails": blamed,
    }


def in_containers(tasks: tuple[str, ...], folder: Path, workers: int) -> RunReport:
    """Runs the matrix of some tasks in real containers and returns its report."""
    client = connect()
    base = make_plan(PlanRequest(agents=("follower",), tasks=tasks), print)
    plan = sabotage.matrix(base)
    loaded = {name: load_task(fixtures_root(), name) for name in tasks}
    sandbox = DockerSandbox(client, installation_id(cache_root()))
    run = Run.create(folder, plan, engine="attribution", workers=workers)
    try:
        guards = Guards(loaded, client, secret=host_canary(run.folder))
        run.execute(
            sabotage.benches(plan, sandbox, guards.of),
            workers=workers,
            progress=lambda end: print(f"  {end.trial.key}", flush=True),
        )
    finally:
        run.close()
    return build_report(run.folder)


def judged(report: RunReport) -> dict[str, object]:
    """Returns what a run's report charged each planted fault to."""
    found, wrong = {}, []
    for row in report.trials:
        task = load_task(fixtures_root(), row.task_id)
        planted = next((f for f in Failure if sabotage.arm_of(f) == row.condition_id), None)
        if planted is None or not sabotage.applies(planted, task):
            continue
        charge = row.charge
        found[row.trial] = charge.model_dump(mode="json") if charge else None
        if charge is None or charge.stage is not STAGE_OF[planted]:
            wrong.append(row.trial)
    return {
        "planted": len(found),
        "stage_named": len(found) - len(wrong),
        "wrong": wrong,
        "charges": found,
    }


def main() -> int:
    """Proves and writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-containers", action="store_true")
    parser.add_argument("--task", action="append", default=[])
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    pack = over_the_pack()
    proof: dict[str, object] = {"made_at": run_stamp(), "pack": pack}
    ok = pack["planted"] == pack["stage_named"] and not pack["blamed_though_the_oracle_fails"]
    print(json.dumps(pack, indent=2))
    if not options.no_containers:
        with tempfile.TemporaryDirectory(prefix="memtrial-attribution-") as folder:
            report = in_containers(
                tuple(options.task) or IN_CONTAINERS, Path(folder), options.workers
            )
        print(render_charges(report))
        proof["containers"] = real = judged(report)
        ok = ok and not real["wrong"]
    out = results_root() / "proofs" / f"attribution-{proof['made_at']}.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(proof, indent=2) + "\n", encoding="utf-8")
    print(f"attribution: {'every planted fault was charged to its stage' if ok else 'NO'}; {out}")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())

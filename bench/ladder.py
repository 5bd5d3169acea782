"""The ladder: how far the follower gets with the evidence in its hands, with chosen events, with the pipeline.

Runs the arms' real memory systems over every task of the pack; what containers would say of the follower's two
patches is known from `memtrial pack`; `--containers` runs every cell in them too and compares. Prints resolved tasks by arm, where each arm
lost facts, and reference_e2e against raw_fts at equal budget, also if it loses. Writes a dated JSON below
results/proofs. A memory system that breaks has failed that task and is named. Exit 1 if one broke, a rung is out
of order, or an arm without memory solves a task.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from dataclasses import dataclass, field

from orchestrator.agents.scripted import ScriptedDriver
from orchestrator.cli.live import Progress
from orchestrator.core.clock import run_stamp
from orchestrator.core.errors import EnvironmentMissing, MemtrialError
from orchestrator.core.places import fixtures_root, results_root
from orchestrator.memory.tokens import TokenCounter
from orchestrator.model.condition import Condition
from orchestrator.pipeline.memory import adapter_of, check_available
from orchestrator.pipeline.options import PlanRequest
from orchestrator.pipeline.setup import make_plan, start_run
from orchestrator.report.build import build_report
from orchestrator.report.charges import sentence
from orchestrator.report.terminal import render_report
from orchestrator.sources.loader import (
    LoadedTask,
    list_tasks,
    load_conditions,
    load_curated,
    load_task,
)
from tests.rehearsed import Rehearsed, rehearse

ORACLE, RETRIEVAL, REFERENCE = "oracle_evidence", "oracle_retrieval", "reference_e2e"
RIVAL, CURATED = "raw_fts", "curated_file_budgeted"
NOTHING = ("no_memory", "placebo_context")
ARMS = (ORACLE, RETRIEVAL, REFERENCE, RIVAL, CURATED, *NOTHING)


@dataclass
class Arm:
    """What one arm came to. `broken` are the failed tasks whose memory system did not come to its end."""

    resolved: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)
    facts: Counter[str] = field(default_factory=Counter)
    tokens: int = 0


def played(condition: Condition, task: LoadedTask, counter: TokenCounter) -> Rehearsed:
    """Takes one arm over one task."""
    curated = load_curated(fixtures_root(), task.card.id).text
    make = adapter_of(condition, curated, counter)
    return rehearse(task, condition, make(), counter, ScriptedDriver("follower"))


def climb() -> tuple[dict[str, Arm], dict[str, str]]:
    """Takes every arm over every task; also returns the arms that are not in this installation, and why."""
    counter = TokenCounter()
    registry = {c.id: c for c in load_conditions(fixtures_root()).conditions}
    arms: dict[str, Arm] = {}
    absent: dict[str, str] = {}
    tasks = [load_task(fixtures_root(), name) for name in list_tasks(fixtures_root())]
    oracle: dict[str, bool] = {}
    for name in ARMS:
        try:
            check_available((registry[name],))
        except EnvironmentMissing as error:
            absent[name] = error.message
            continue
        arms[name] = arm = Arm()
        for task in tasks:
            try:
                trial = played(registry[name], task, counter)
            except MemtrialError as error:
                lose(arm, task.card.id, f"{error.reference}: {error.message}")
            else:
                _book(arm, name, task, trial, oracle)
    return arms, absent


def lose(arm: Arm, task_id: str, why: str) -> None:
    """Books a trial whose memory system broke: it has failed, and it is no result of the ladder."""
    arm.failed[task_id] = f"broke: {why}"
    arm.broken[task_id] = why


def _book(arm: Arm, name: str, task: LoadedTask, trial: Rehearsed, oracle: dict[str, bool]) -> None:
    task_id = task.card.id
    if name == ORACLE:
        oracle[task_id] = trial.resolved
    arm.tokens += trial.injection.tokens
    arm.facts["all"] += len(trial.trace.facts)
    arm.facts["delivered"] += sum(fact.delivered for fact in trial.trace.facts)
    broke = trial.remembered.failure
    if broke is not None:
        lose(arm, task_id, f"{broke.step.value}: {broke.rule}: {broke.detail}")
    elif trial.resolved:
        arm.resolved.append(task_id)
    elif name == NOTHING[0]:
        arm.failed[task_id] = "no memory"
    else:
        arm.failed[task_id] = sentence(trial.charged(oracle.get(task_id)))


def in_containers(arms: dict[str, Arm], workers: int) -> list[str]:
    """Runs every cell in containers, prints the report, and returns the cells that came out otherwise."""
    progress = Progress()
    request = PlanRequest(agents=("follower",), task_set="full", conditions=tuple(arms))
    plan = make_plan(request, progress.say)
    with progress:
        folder = start_run(plan, watch=progress, workers=workers)
    report = build_report(folder)
    print(render_report(report))
    return [
        f"{row.trial}: {row.status} in containers"
        for row in report.trials
        if (row.status == "resolved") != (row.task_id in arms[row.condition_id].resolved)
    ]


def verdict_on(arms: dict[str, Arm]) -> list[str]:
    """Returns what is out of order."""
    wrong = []
    for upper, lower in ((ORACLE, RETRIEVAL), (RETRIEVAL, REFERENCE)):
        if upper in arms and lower in arms:
            high, low = len(arms[upper].resolved), len(arms[lower].resolved)
            if high < low:
                wrong.append(f"{upper} solves {high}, {lower} {low}")
    wrong += [
        f"{name} solves {len(arms[name].resolved)} tasks without memory"
        for name in NOTHING
        if name in arms and arms[name].resolved
    ]
    wrong += [
        f"{name} broke on {len(arm.broken)} tasks ({', '.join(sorted(arm.broken))})"
        for name, arm in arms.items()
        if arm.broken
    ]
    return wrong


def main() -> int:
    """Climbs, prints, writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--containers", action="store_true", help="7 x 16 trials: half an hour")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    arms, absent = climb()
    total = len(list_tasks(fixtures_root()))
    print(f"{'arm':<24}{'resolved':>10}{'facts delivered':>18}{'memory tokens':>16}")
    for name, arm in arms.items():
        facts = f"{arm.facts['delivered']}/{arm.facts['all']}"
        print(f"{name:<24}{f'{len(arm.resolved)}/{total}':>10}{facts:>18}{arm.tokens:>16}")
    for name, why in absent.items():
        print(f"{name:<24} not in this installation: {why}")
    for name, arm in arms.items():
        if arm.failed and (name not in NOTHING or arm.broken):
            print(f"\nwhere {name} lost tasks:")
            for task_id, why in arm.failed.items():
                print(f"  {task_id}: {why}")
    compared = _compared(arms)
    print(f"\n{compared}")
    wrong = verdict_on(arms)
    if options.containers:
        wrong += in_containers(arms, options.workers)
    stamp = run_stamp()
    out = results_root() / "proofs" / f"ladder-{stamp}.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    proof = {
        "made_at": stamp,
        "tasks": total,
        "arms": {
            name: {"resolved": arm.resolved, "failed": arm.failed, "broken": arm.broken, "facts": dict(arm.facts), "memory_tokens": arm.tokens}
            for name, arm in arms.items()
        },
        "absent": absent,
        "compared": compared,
        "out_of_order": wrong,
    }  # fmt: skip
    out.write_text(json.dumps(proof, indent=2) + "\n", encoding="utf-8")
    print(f"ladder: {'; '.join(wrong) or 'every rung in order'}; {out}")
    return 1 if wrong else 0


def _compared(arms: dict[str, Arm]) -> str:
    if REFERENCE not in arms or RIVAL not in arms:
        return f"{REFERENCE} against {RIVAL}: not compared, one is absent"
    own, other = len(arms[REFERENCE].resolved), len(arms[RIVAL].resolved)
    word = "beats" if own > other else "loses to" if own < other else "ties with"
    only = sorted(set(arms[REFERENCE].resolved) - set(arms[RIVAL].resolved))
    rival = sorted(set(arms[RIVAL].resolved) - set(arms[REFERENCE].resolved))
    return (
        f"{REFERENCE} {word} {RIVAL} at equal budget: {own} against {other} tasks"
        f" (only {REFERENCE}: {', '.join(only) or 'none'}; only {RIVAL}: {', '.join(rival) or 'none'})"
    )


if __name__ == "__main__":
    sys.exit(main())

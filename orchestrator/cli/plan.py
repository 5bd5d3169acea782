"""Fixes what will run: tasks x conditions x agents x epochs, with the digest of everything they use.

The same request over the same files gives the same bytes. --dry-run checks the whole matrix offline,
without an engine, and writes nothing.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from orchestrator.cli import render
from orchestrator.cli.live import Progress
from orchestrator.core.errors import UsageError
from orchestrator.pipeline.options import PlanRequest


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    parser.add_argument("--suite", choices=["coding-v1"], default="coding-v1")
    parser.add_argument("--phase", choices=["local", "smoke", "official"], default="local")
    parser.add_argument(
        "--namespace", default="default", help="name that keeps runs of different purposes apart"
    )
    parser.add_argument("--task-set", choices=["smoke", "full"], default="smoke")
    parser.add_argument(
        "--matrix", choices=["primary", "implemented", "all"], default="implemented"
    )
    parser.add_argument(
        "--condition",
        action="append",
        default=[],
        metavar="ID",
        help="only this condition (repeatable)",
    )
    parser.add_argument(
        "--task", action="append", default=[], metavar="ID", help="only this task (repeatable)"
    )
    parser.add_argument(
        "--epochs", type=int, default=1, metavar="N", help="repetitions of each cell"
    )
    parser.add_argument(
        "--agent",
        action="append",
        default=[],
        metavar="NAME",
        help="oracle, noop or follower (repeatable)",
    )
    parser.add_argument("--model", metavar="ID")
    parser.add_argument("--reasoning-effort", metavar="E")
    parser.add_argument(
        "--seed",
        type=int,
        default=0,
        metavar="N",
        help="seed of the trial order (part of the plan)",
    )
    parser.add_argument("--out", type=Path, metavar="FILE")
    parser.add_argument(
        "--dry-run", action="store_true", help="validate the matrix offline and write nothing"
    )


def request_from(arguments: argparse.Namespace) -> PlanRequest:
    """Turns the options into a request."""
    if not arguments.agent:
        raise UsageError(
            "agent-not-given",
            "expected at least one --agent, found none",
            hint="add --agent oracle, --agent noop or --agent follower",
        )
    if not 1 <= arguments.epochs <= 1000:
        raise UsageError(
            "epochs-out-of-range",
            f"expected --epochs between 1 and 1000, found {arguments.epochs}",
            hint="choose a number of epochs in that range",
        )
    if arguments.seed < 0:
        raise UsageError(
            "seed-negative",
            f"expected --seed of 0 or more, found {arguments.seed}",
            hint="choose another seed",
        )
    return PlanRequest(
        agents=tuple(arguments.agent),
        suite=arguments.suite,
        phase=arguments.phase,
        namespace=arguments.namespace,
        task_set=arguments.task_set,
        matrix=arguments.matrix,
        conditions=tuple(arguments.condition),
        tasks=tuple(arguments.task),
        epochs=arguments.epochs,
        order_seed=arguments.seed,
        model=arguments.model,
        reasoning_effort=arguments.reasoning_effort,
    )


def run(arguments: argparse.Namespace) -> int:
    """Makes, checks and writes the plan."""
    from orchestrator.core.files import write_atomic
    from orchestrator.model.symmetry import PARTS
    from orchestrator.pipeline.setup import make_plan

    request = request_from(arguments)
    if not arguments.dry_run and arguments.out is None:
        raise UsageError(
            "out-not-given",
            "expected --out FILE, found none",
            hint="add --out plan.json, or --dry-run to write nothing",
        )
    plan = make_plan(request, Progress().say, offline=arguments.dry_run)
    summary = {
        "plan_sha256": plan.digest_sha256(),
        "trials": len(plan.trials),
        "tasks": [task.digests.id for task in plan.tasks],
        "conditions": [condition.id for condition in plan.conditions],
        "agents": [agent.name for agent in plan.agents],
        "epochs": plan.epochs,
        "diagnostic": plan.diagnostic,
        "symmetry": {
            "arms": len(plan.arms),
            "equal_across_conditions": list(PARTS),
        },
        "dry_run": bool(arguments.dry_run),
    }
    if not arguments.dry_run:
        write_atomic(arguments.out, plan.canonical())
    if arguments.json:
        render.document(summary)
        return 0
    render.text(
        f"{len(plan.trials)} trials: {len(plan.tasks)} tasks x {len(plan.conditions)} conditions x {len(plan.agents)} agents x {plan.epochs} epochs"
    )
    render.text(
        f"symmetry: equal {', '.join(PARTS)} in all {len(plan.conditions)} conditions of each task"
    )
    render.text(f"plan sha256 {plan.digest_sha256()}")
    render.text(
        "next: leave out --dry-run and add --out plan.json"
        if arguments.dry_run
        else f"next: memtrial run {arguments.out}"
    )
    return 0

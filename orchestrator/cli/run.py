"""Runs a plan: every trial in its own containers, every result into a new folder below results/.

A plan with a live model runs with --live and under its approval alone (`memtrial approve`).
"""

from __future__ import annotations

import argparse
from pathlib import Path

from orchestrator.cli.approval_file import approval_beside, read_approval
from orchestrator.cli.session import add_workers, work


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    parser.add_argument("plan", type=Path, metavar="PLAN", help="plan file made by `memtrial plan`")
    parser.add_argument(
        "--live", action="store_true", help="call real models, under the plan's signed approval"
    )
    parser.add_argument(
        "--approval",
        type=Path,
        metavar="FILE",
        help="the approval (with --live; default: the file beside the plan)",
    )
    add_workers(parser)


def run(arguments: argparse.Namespace) -> int:
    """Runs the plan and prints the report."""
    from orchestrator.core.errors import UsageError
    from orchestrator.pipeline.live import only_dispatched
    from orchestrator.pipeline.run import read_plan
    from orchestrator.pipeline.setup import start_run

    plan = read_plan(arguments.plan)
    if arguments.approval and not arguments.live:
        raise UsageError(
            "approval-without-live",
            "expected --live with --approval, found --approval alone",
            hint="add --live, or leave --approval out",
        )
    if arguments.live and plan.phase != "local":
        raise only_dispatched(plan)
    approval = None
    if arguments.live:
        approval = read_approval(arguments.approval or approval_beside(arguments.plan))
    work(
        lambda watch, workers: start_run(plan, watch=watch, workers=workers, approval=approval),
        arguments,
    )
    return 0

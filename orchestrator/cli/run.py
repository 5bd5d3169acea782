"""Runs a plan: every trial in its own containers, every result into a new folder below results/."""

from __future__ import annotations

import argparse
from pathlib import Path

from orchestrator.cli import render
from orchestrator.cli.session import finish


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    parser.add_argument("plan", type=Path, metavar="PLAN", help="plan file made by `memtrial plan`")
    parser.add_argument(
        "--workers",
        type=int,
        default=0,
        metavar="N",
        help="trials at a time (default: one per core)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Runs the plan and prints the report."""
    from orchestrator.pipeline.run import read_plan
    from orchestrator.pipeline.setup import start_run

    progress = render.Progress()
    plan = read_plan(arguments.plan)
    folder = start_run(plan, progress=progress.say, live=progress.live, workers=arguments.workers)
    return finish(folder, as_json=arguments.json)

"""Runs a plan: every trial in its own containers, every result into a new folder below results/."""

from __future__ import annotations

import argparse
from pathlib import Path

from orchestrator.cli.session import add_workers, work


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    parser.add_argument("plan", type=Path, metavar="PLAN", help="plan file made by `memtrial plan`")
    add_workers(parser)


def run(arguments: argparse.Namespace) -> int:
    """Runs the plan and prints the report."""
    from orchestrator.pipeline.run import read_plan
    from orchestrator.pipeline.setup import start_run

    plan = read_plan(arguments.plan)
    work(lambda watch, workers: start_run(plan, watch=watch, workers=workers), arguments)
    return 0

"""Runs the whole main job offline: engine, images, plan, trials, verdicts, report.

Three scripted agents (oracle, noop, follower) under every condition on the smoke tasks. It fails (exit
1) when the wiring does not show what it must: oracle resolves all, noop none, follower none without
memory and all with the curated file.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.cli.command import shown_path
from orchestrator.cli.session import add_workers, work
from orchestrator.core.errors import Negative
from orchestrator.model.report import RunReport
from orchestrator.pipeline.options import PlanRequest

if TYPE_CHECKING:
    from orchestrator.pipeline.watch import Watch

SMOKE_REQUEST = PlanRequest(agents=("oracle", "noop", "follower"), namespace="smoke")


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    add_workers(parser)


def run(arguments: argparse.Namespace) -> int:
    """Sets everything up, runs, reports, and checks what a smoke run must show."""
    from orchestrator.core.files import require_writable
    from orchestrator.core.places import results_root
    from orchestrator.pipeline.setup import make_plan, start_run

    require_writable(results_root(), "runs are written to it")

    def everything(watch: Watch, workers: int) -> Path:
        plan = make_plan(SMOKE_REQUEST, watch.say, install=True)
        return start_run(plan, watch=watch, workers=workers)

    report = work(everything, arguments)
    wrong = unexpected(report)
    if wrong:
        raise Negative(
            "smoke-unexpected",
            "the smoke run does not show what it must: " + "; ".join(wrong),
            hint=f"read {shown_path(results_root() / report.run_id / 'report.json')}",
        )
    return 0


def unexpected(report: RunReport) -> list[str]:
    """Returns what differs from the outcome that a sound installation must give."""
    wrong = []
    for arm in report.arms:
        must = {"oracle": arm.trials, "noop": 0}.get(arm.agent)
        if arm.agent == "follower" and arm.condition_id == "no_memory":
            must = 0
        if arm.agent == "follower" and arm.condition_id == "curated_file_budgeted":
            must = arm.trials
        if must is not None and arm.resolved.passed != must:
            wrong.append(
                f"{arm.agent} under {arm.condition_id}: expected {must}/{arm.trials} resolved, found {arm.resolved.passed}"
            )
    return wrong

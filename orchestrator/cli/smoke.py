"""Runs the whole main job offline: engine, images, plan, trials, verdicts, report.

Three scripted agents (oracle, noop, follower) under every condition on the smoke tasks. It fails (exit
1) when the wiring does not show what it must: oracle resolves all, noop none, follower none without
memory, all with the curated file, and all with what the reference pipeline found by itself.
"""

from __future__ import annotations

import argparse

from orchestrator.cli.session import add_workers, work_request
from orchestrator.model.report import RunReport
from orchestrator.pipeline.options import PlanRequest

SMOKE_REQUEST = PlanRequest(agents=("oracle", "noop", "follower"), namespace="smoke")


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    add_workers(parser)


def run(arguments: argparse.Namespace) -> int:
    """Sets everything up, runs, reports, and checks what a smoke run must show."""
    return work_request(
        SMOKE_REQUEST, arguments, unexpected=unexpected, reference="smoke-unexpected"
    )


def unexpected(report: RunReport) -> list[str]:
    """Returns what differs from the outcome that a sound installation must give."""
    wrong = []
    for arm in report.arms:
        must = {"oracle": arm.trials, "noop": 0}.get(arm.agent)
        if arm.agent == "follower":
            # Every standard arm but the first tells it all facts on the smoke tasks; they are chosen so.
            must = 0 if arm.condition_id == "no_memory" else arm.trials
        if must is not None and arm.resolved.passed != must:
            wrong.append(
                f"{arm.agent} under {arm.condition_id}: expected {must}/{arm.trials} resolved, found {arm.resolved.passed}"
            )
    return wrong

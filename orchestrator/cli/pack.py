"""Proves that every task of the pack measures memory, with the scripted agents and no memory at all.

The oracle must resolve all tasks, the noop none. The follower, which is told nothing, does what seems
natural: it must do every job (all capability tests and the base suite pass) and fail a memory test of
each. Exit 1 when one does not.
"""

from __future__ import annotations

import argparse

from orchestrator.cli.session import add_workers, work_request
from orchestrator.model.report import RunReport, TrialRow
from orchestrator.model.verdict import FailureReason
from orchestrator.pipeline.options import PlanRequest

PACK_REQUEST = PlanRequest(
    agents=("oracle", "noop", "follower"),
    namespace="pack",
    task_set="full",
    conditions=("no_memory",),
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    add_workers(parser)


def run(arguments: argparse.Namespace) -> int:
    """Sets everything up, runs, reports, and checks each trial of the pack."""
    return work_request(PACK_REQUEST, arguments, unexpected=unexpected, reference="pack-unexpected")


def unexpected(report: RunReport) -> list[str]:
    """Returns what did not end as sound tasks must; names the tasks."""
    wrong = [
        f"{trial.task_id}: {wanted}, found {trial.why}"
        for trial in report.trials
        if (wanted := _missed(trial))
    ]
    for arm in report.arms:
        lost = arm.fail_to_pass.of - arm.fail_to_pass.passed
        lost_memory = arm.fail_to_pass_memory.of - arm.fail_to_pass_memory.passed
        if arm.agent == "follower" and lost != lost_memory:
            wrong.append(
                f"natural patches: expected every capability test to pass, found {lost - lost_memory} that do not"
            )
        if arm.agent == "noop" and arm.fail_to_pass.passed:
            wrong.append(
                f"no change: expected every hidden test to fail, found {arm.fail_to_pass.passed} that pass"
            )
        if arm.pass_to_pass.passed != arm.pass_to_pass.of:
            wrong.append(
                f"{arm.agent}: expected the whole base suite to pass, found {arm.pass_to_pass.passed} of {arm.pass_to_pass.of}"
            )
    return wrong


def _missed(trial: TrialRow) -> str:
    """Returns what was expected of a trial and did not happen, or nothing."""
    if trial.agent == "oracle":
        return "" if trial.status == "resolved" else "expected the reference patch to resolve it"
    if trial.status != "unresolved":
        return f"expected {trial.agent} without memory to leave it unresolved"
    if trial.agent == "follower" and trial.failure_reason != FailureReason.MISSING_MEMORY:
        return "expected the natural patch to fail for want of memory"
    return ""

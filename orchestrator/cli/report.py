"""Rebuilds report.json, report.txt and the table of a run from its record alone.

Every blob that the record names is read and its hash checked. A read-only copy gives its table as well.
"""

from __future__ import annotations

import argparse

from orchestrator.cli import render
from orchestrator.cli.session import finish


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    parser.add_argument(
        "run", metavar="RUN", nargs="?", default="latest", help="run id, folder, or latest"
    )
    parser.add_argument(
        "--explain",
        metavar="TRIAL",
        help="say in words what became of one trial and of the facts that it needed",
    )


def run(arguments: argparse.Namespace) -> int:
    """Rebuilds and prints the report."""
    from orchestrator.core.places import results_root
    from orchestrator.pipeline.find import find_run

    if arguments.explain is not None:
        return _explain(arguments)
    finish(
        find_run(results_root(), arguments.run),
        as_json=arguments.json,
        # The report again would be no step on.
        after="memtrial plan --agent follower --epochs 3 --out plan.json",
        named=arguments.run,
        seal=False,
    )
    return 0


def _explain(arguments: argparse.Namespace) -> int:
    from orchestrator.core.places import results_root
    from orchestrator.model.attribution import ORACLE_CONDITION
    from orchestrator.pipeline.find import find_run
    from orchestrator.report.build import read_trial
    from orchestrator.report.charges import explain_trial

    row, trace = read_trial(find_run(results_root(), arguments.run), arguments.explain)
    if arguments.json:
        told = trace.model_dump(mode="json") if trace else None
        render.document({"trial": row.model_dump(mode="json"), "trace": told})
        return 0
    render.text(explain_trial(row, trace))
    lacking = row.charge is not None and row.charge.to == "undetermined_no_oracle"
    again = f"memtrial plan --task {row.task_id} --condition {ORACLE_CONDITION} --condition {row.condition_id} --agent {row.agent} --out plan.json"
    render.text(f"next: {again if lacking else f'memtrial report {arguments.run}'}")
    return 0

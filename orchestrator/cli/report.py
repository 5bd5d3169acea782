"""Rebuilds report.json, report.txt and the table of a run from its record alone.

Every blob that the record names is read and its hash checked. A read-only copy gives its table as well.
"""

from __future__ import annotations

import argparse

from orchestrator.cli.session import finish


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    parser.add_argument(
        "run", metavar="RUN", nargs="?", default="latest", help="run id, folder, or latest"
    )


def run(arguments: argparse.Namespace) -> int:
    """Rebuilds and prints the report."""
    from orchestrator.core.places import results_root
    from orchestrator.pipeline.find import find_run

    finish(
        find_run(results_root(), arguments.run),
        as_json=arguments.json,
        # The report again would be no step on.
        after="memtrial plan --agent follower --epochs 3 --out plan.json",
        named=arguments.run,
        seal=False,
    )
    return 0

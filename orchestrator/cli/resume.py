"""Goes on with a run that stopped: finished trials stay, half-way ones go on from their last stage."""

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
        "--workers",
        type=int,
        default=0,
        metavar="N",
        help="trials at a time (default: one per core)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Finishes the run and prints the report."""
    from orchestrator.core.places import results_root
    from orchestrator.pipeline.run import find_run
    from orchestrator.pipeline.setup import resume_run

    progress = render.Progress()
    folder = find_run(results_root(), arguments.run)
    resume_run(folder, progress=progress.say, live=progress.live, workers=arguments.workers)
    return finish(folder, as_json=arguments.json)

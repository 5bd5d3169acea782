"""What `run`, `resume`, `report` and `smoke` share: working trials off, writing the report,
saying where it is."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.cli import render
from orchestrator.cli.live import Progress
from orchestrator.core.errors import Incomplete, UsageError
from orchestrator.model.report import RunReport

if TYPE_CHECKING:
    from orchestrator.pipeline.watch import Watch


def add_workers(parser: argparse.ArgumentParser) -> None:
    """Adds the one option of everything that works trials off."""
    parser.add_argument(
        "--workers",
        type=int,
        default=0,
        metavar="N",
        help="trials at a time (default: one per core); fewer where memory does not allow it",
    )


def work(do: Callable[[Watch, int], Path], arguments: argparse.Namespace) -> tuple[Path, int]:
    """Works trials off under the eyes of a progress display, then prints the report.

    Args:
        do: gets the display and the number of workers, and returns the run's folder.
        arguments: with `workers` and `json`.

    Returns:
        The run's folder and the exit code.

    Raises:
        UsageError: a negative number of workers.
        Incomplete: trials without a verdict are left.
    """
    if arguments.workers < 0:
        raise UsageError(
            "workers-negative",
            f"expected --workers of 0 or more, found {arguments.workers}",
            hint="leave --workers out for one per core",
        )
    with Progress() as progress:
        folder = do(progress, arguments.workers)
    return folder, finish(folder, as_json=arguments.json)


def write_report(folder: Path) -> RunReport:
    """Rebuilds the report from the record and writes report.json and report.txt."""
    from orchestrator.core.files import write_atomic
    from orchestrator.report.build import build_report
    from orchestrator.report.terminal import render_report

    report = build_report(folder)
    write_atomic(folder / "report.json", report.canonical() + b"\n")
    write_atomic(folder / "report.txt", render_report(report).encode())
    return report


def shown_path(path: Path) -> str:
    """Returns a path relative to the working folder where that is shorter."""
    relative = os.path.relpath(path)
    return relative if len(relative) < len(str(path)) else str(path)


def finish(folder: Path, *, as_json: bool) -> int:
    """Writes and prints the report.

    Raises:
        Incomplete: trials without a verdict are left.
    """
    from orchestrator.report.terminal import render_report

    report = write_report(folder)
    if as_json:
        render.document(report.model_dump(mode="json"))
    else:
        render.text(render_report(report))
        render.text(f"report: {shown_path(folder / 'report.json')}")
    if not report.complete:
        left = sum(trial.verdict_sha256 is None for trial in report.trials) - sum(
            trial.outcome == "inadmissible" for trial in report.trials
        )
        raise Incomplete(
            "run-incomplete",
            f"{left} of {len(report.trials)} trials have no verdict",
            hint=f"run `memtrial resume {report.run_id}`",
        )
    if not as_json:
        render.text(f"next: memtrial report {report.run_id}")
    return 0

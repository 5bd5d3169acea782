"""What `run`, `resume`, `report` and `smoke` share: writing the report and saying where it is."""

from __future__ import annotations

import os
from pathlib import Path

from orchestrator.cli import render
from orchestrator.core.errors import Incomplete
from orchestrator.model.report import RunReport


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

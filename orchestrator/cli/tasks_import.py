"""Turns tasks of another benchmark into task folders, with a report of what was kept, changed and refused.

Exit 1 when something was refused. What was imported is written whole or not at all.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from orchestrator.cli import render


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the word."""
    parser.add_argument("kind", choices=["remem-pack", "swebench", "harbor"])
    parser.add_argument("path", type=Path, metavar="PATH", help="the pack, rows or task folder")
    parser.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="a new folder for the pack"
    )


def run(arguments: argparse.Namespace) -> int:
    """Imports and prints one line for each task."""
    from orchestrator.pipeline.authoring.imports import import_tasks

    report = import_tasks(arguments.kind, arguments.path, arguments.out)
    refused = [task for task in report.tasks if task.refused]
    if arguments.json:
        render.document(report.model_dump(mode="json"))
        return 1 if refused else 0
    for task in report.tasks:
        render.row(f"{'refused ' if task.refused else 'imported'} {task.id}")
        for kind, lines in (
            ("kept", task.kept),
            ("changed", task.changed),
            ("refused", task.refused),
            ("to do", task.to_do),
        ):
            for line in lines:
                render.row(f"  {kind:<8} {line}")
    render.text(f"next: memtrial tasks --pack {arguments.out} list")
    return 1 if refused else 0

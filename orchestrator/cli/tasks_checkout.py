"""Writes a task's pinned checkout into a new folder, where its author makes the rehearsal patches with git."""

from __future__ import annotations

import argparse
from pathlib import Path

from orchestrator.cli import render


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the word."""
    parser.add_argument("task", metavar="TASK")
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="a new folder")


def run(arguments: argparse.Namespace) -> int:
    """Writes the checkout and says how a patch is made there."""
    from orchestrator.cli.tasks import fixtures_of
    from orchestrator.core.places import cache_root
    from orchestrator.sources.checkout import materialise, write_checkout
    from orchestrator.sources.loader import load_task

    fixtures = fixtures_of(arguments)
    source = load_task(fixtures, arguments.task).source
    checkout = materialise(source, fixtures=fixtures, cache=cache_root())
    write_checkout(checkout, arguments.folder)
    rehearsal = fixtures / "tasks" / arguments.task / "rehearsal"
    after = f"edit there, then git -C {arguments.folder} add -AN && git -C {arguments.folder} diff > {rehearsal}/reference.patch"
    if arguments.json:
        render.document(
            {"task": arguments.task, "tree": checkout.tree, "files": len(checkout.entries)}
        )
        return 0
    render.row(f"{len(checkout.entries)} files of {source.id} in {arguments.folder}")
    render.text(f"next: {after}")
    return 0

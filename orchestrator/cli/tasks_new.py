"""Scaffolds a task: every file with what belongs there, to be filled in. See docs/how-to/write-a-task.md."""

from __future__ import annotations

import argparse

from orchestrator.cli import render


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the word."""
    parser.add_argument("task", metavar="TASK", help="the new task's id")
    parser.add_argument("--source", required=True, metavar="ID", help="a source of the fixtures")
    parser.add_argument(
        "--language",
        required=True,
        choices=["python", "javascript", "typescript", "go", "rust"],
    )
    parser.add_argument(
        "--category",
        required=True,
        metavar="NAME",
        help="as in fixtures/README.md, with _ for blanks",
    )


def run(arguments: argparse.Namespace) -> int:
    """Writes the scaffold and says what to do next."""
    from orchestrator.cli.tasks import again, fixtures_of
    from orchestrator.pipeline.authoring.scaffold import scaffold

    written = scaffold(
        fixtures_of(arguments),
        arguments.task,
        source=arguments.source,
        language=arguments.language,
        category=arguments.category,
    )
    if arguments.json:
        render.document({"task": arguments.task, "files": written})
        return 0
    for path in written:
        render.row(path)
    render.text(
        f"next: fill the files in (docs/how-to/write-a-task.md), then {again(arguments, 'validate', arguments.task, '--paper')}"
    )
    return 0

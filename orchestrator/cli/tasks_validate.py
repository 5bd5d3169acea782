"""Checks that tasks measure memory: V1 to V12, each with evidence. Exit 1 when a check fails.

`--write` records the result beside the tasks, where plans look for it; `--paper` leaves containers out.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from orchestrator.cli import render
from orchestrator.cli.live import Progress

if TYPE_CHECKING:
    from orchestrator.model.validation import ValidationReport


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the word."""
    parser.add_argument("tasks", metavar="TASK", nargs="*", help="only these tasks")
    parser.add_argument("--all", action="store_true", help="every task")
    parser.add_argument(
        "--repeats", type=int, default=5, metavar="K", help="how often the reference is played"
    )
    parser.add_argument("--paper", action="store_true", help="only the checks without containers")
    parser.add_argument("--write", action="store_true", help="record the result in validation.json")


def run(arguments: argparse.Namespace) -> int:
    """Validates and prints one line for each check."""
    from orchestrator.cli.tasks import again, fixtures_of
    from orchestrator.core.files import write_atomic
    from orchestrator.pipeline.validate.run import REPORT, merged_report, read_report, validate
    from orchestrator.sandbox.engine import connect
    from orchestrator.sources.loader import list_tasks, load_task

    _check(arguments)
    fixtures = fixtures_of(arguments)
    tasks = [load_task(fixtures, name) for name in arguments.tasks or list_tasks(fixtures)]
    client = None if arguments.paper else connect()
    report = validate(tasks, client, Progress().say, repeats=arguments.repeats)
    if arguments.write:
        merged = merged_report(read_report(fixtures), report)
        write_atomic(fixtures / REPORT, merged.canonical() + b"\n")
    names = ["--all"] if arguments.all else arguments.tasks
    after = (
        again(arguments, "validate", *names)
        if arguments.paper
        else "memtrial plan --agent oracle --task-set full --out plan.json"
    )
    return _show(report, as_json=arguments.json, paper=arguments.paper, after=after)


def _check(arguments: argparse.Namespace) -> None:
    from orchestrator.core.errors import UsageError

    if not arguments.tasks and not arguments.all:
        raise UsageError(
            "tasks-not-given", "expected tasks or --all, found neither", hint="add --all"
        )
    if not 2 <= arguments.repeats <= 100:
        raise UsageError(
            "repeats-out-of-range",
            f"expected --repeats between 2 and 100, found {arguments.repeats}",
            hint="use the default of 5",
        )
    if arguments.write and arguments.paper:
        raise UsageError(
            "paper-not-recorded",
            "expected a whole validation for --write, found --paper",
            hint="leave --paper out",
        )


def _show(report: ValidationReport, *, as_json: bool, paper: bool, after: str) -> int:
    """Prints the report; with `paper` the checks that were not made count for nothing."""
    made = {
        task.id: [c for c in task.checks if not paper or not c.evidence.startswith("not made")]
        for task in report.tasks
    }
    failed = [name for name, checks in made.items() if not all(c.ok for c in checks)]
    if as_json:
        render.document({**report.model_dump(mode="json"), "digest": report.digest_sha256()})
        return 1 if failed else 0
    for name, checks in made.items():
        render.row(f"{name}: {'not valid' if name in failed else 'valid'}")
        for check in checks:
            render.row(f"  {'ok  ' if check.ok else 'FAIL'} {check.name:<16} {check.evidence}")
    render.text(f"digest {report.digest_sha256()}")
    render.text(f"next: {f'mend {failed[0]} as its lines say' if failed else after}")
    return 1 if failed else 0

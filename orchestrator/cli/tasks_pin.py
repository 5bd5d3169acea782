"""Measures the base suite of tasks in containers and writes key/pass_to_pass.json, which the plan pins.

Says what would change; `--check` writes nothing and exits with 1 when a pin would change.
"""

from __future__ import annotations

import argparse

from orchestrator.cli import render
from orchestrator.cli.live import Progress


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the word."""
    parser.add_argument("tasks", metavar="TASK", nargs="+", help="tasks to pin")
    parser.add_argument(
        "--repeats", type=int, default=3, metavar="K", help="how often the suite is run"
    )
    parser.add_argument("--check", action="store_true", help="write nothing, say what differs")


def run(arguments: argparse.Namespace) -> int:
    """Pins the tasks and prints a line for each."""
    from orchestrator.cli.tasks import fixtures_of
    from orchestrator.core.errors import UsageError
    from orchestrator.core.files import write_atomic
    from orchestrator.model.task import PassToPassList
    from orchestrator.pipeline.authoring.drafts import as_document
    from orchestrator.pipeline.validate.pins import measure_pins
    from orchestrator.pipeline.validate.run import stage_for
    from orchestrator.sandbox.engine import connect
    from orchestrator.sources.loader import load_task

    if not 1 <= arguments.repeats <= 100:
        raise UsageError(
            "repeats-out-of-range",
            f"expected --repeats between 1 and 100, found {arguments.repeats}",
            hint="use the default of 3",
        )
    fixtures = fixtures_of(arguments)
    tasks = [load_task(fixtures, name) for name in arguments.tasks]
    client, say = connect(), Progress().say
    rows = []
    for task in tasks:
        say(f"pin {task.card.id}: running the base suite")
        found = measure_pins(stage_for(task, client, say), repeats=arguments.repeats)
        path = fixtures / "tasks" / task.card.id / "key/pass_to_pass.json"
        changed = PassToPassList.parse(path.read_bytes(), where=str(path)) != found
        if changed and not arguments.check:
            whole = found.model_dump(mode="json").items()
            write_atomic(path, as_document({name: value for name, value in whole if value}))
        rows.append(
            {
                "id": task.card.id,
                "pass_to_pass": len(found.pass_to_pass),
                "also_reported": len(found.also_reported),
                "apart": len(found.apart),
                "changed": changed,
            }
        )
    return _show(rows, as_json=arguments.json, check=arguments.check)


def _show(rows: list[dict[str, object]], *, as_json: bool, check: bool) -> int:
    differs = any(row["changed"] for row in rows)
    if as_json:
        render.document({"tasks": rows})
        return 1 if check and differs else 0
    for row in rows:
        state = ("would change" if check else "written") if row["changed"] else "unchanged"
        render.row(
            f"{row['id']}: {row['pass_to_pass']} tests pinned, {row['apart']} of them apart too, "
            f"{row['also_reported']} only reported; {state}"
        )
    names = " ".join(str(row["id"]) for row in rows)
    render.text(f"next: memtrial tasks {'pin' if check and differs else 'validate'} {names}")
    return 1 if check and differs else 0

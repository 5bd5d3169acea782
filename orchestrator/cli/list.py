"""Lists what there is: `memtrial list tasks`, `memtrial list conditions`, `memtrial list sources`."""

from __future__ import annotations

import argparse

from orchestrator.cli import render


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    parser.add_argument("what", choices=["tasks", "conditions", "sources"])
    parser.set_defaults(pack=None)


def run(arguments: argparse.Namespace) -> int:
    """Prints one line for each."""
    if arguments.what == "tasks":
        from orchestrator.cli import tasks

        arguments.word = "list"
        return tasks.run(arguments)
    from orchestrator.core.places import fixtures_root
    from orchestrator.sources.loader import load_conditions, load_source

    fixtures = fixtures_root()
    if arguments.what == "conditions":
        found = [c.model_dump(mode="json") for c in load_conditions(fixtures).conditions]
        lines = [f"{c['id']:<28} {c['role']:<8} {c['summary']}" for c in found]
    else:
        names = sorted(path.stem for path in (fixtures / "sources").glob("*.json"))
        found = [load_source(fixtures, name).model_dump(mode="json") for name in names]
        lines = [
            f"{s['id']:<28} {s['kind']:<12} {s['licence']:<14} tree {s['expect']['tree']}"
            for s in found
        ]
    if arguments.json:
        render.document(found)
        return 0
    for line in lines:
        render.row(line)
    render.text("next: memtrial list tasks")
    return 0

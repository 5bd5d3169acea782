"""Lists what there is: `memtrial list tasks`, `memtrial list conditions`, `memtrial list sources`."""

from __future__ import annotations

import argparse
from pathlib import Path

from orchestrator.cli import render


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    parser.add_argument("what", choices=["tasks", "conditions", "sources"])
    parser.add_argument(
        "--pin",
        action="store_true",
        help="conditions: pin every adapter to its present code (that of MEMTRIAL_CONDITIONS, if set)",
    )
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
    if arguments.pin:
        _pin(fixtures)
    if arguments.what == "conditions":
        found = [c.model_dump(mode="json") for c in load_conditions(fixtures).conditions]
        lines = [
            f"{c['id']:<24} {c['role']:<10} {'claims' if c['claim_bearing'] else '-':<7} {c['delivery']:<14} {c['summary']}"
            for c in found
        ]
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


def _pin(fixtures: Path) -> None:
    from orchestrator.core.places import added_conditions_path
    from orchestrator.pipeline.pins import write_pins

    path = added_conditions_path() or fixtures / "conditions.json"
    changed = write_pins(path)
    render.note(f"{path.name}: {'pinned anew' if changed else 'every pin holds'}")

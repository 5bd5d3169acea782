"""Runs hostile agents against the harness on this machine: each must fail, and leave nothing behind."""

from __future__ import annotations

import argparse

from orchestrator.cli import render
from orchestrator.core.errors import Negative, UsageError
from orchestrator.model.attack import AttackRow
from orchestrator.sources.attacks import LoadedAttack


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    parser.add_argument("attacks", nargs="*", metavar="ID", help="attacks to run")
    parser.add_argument("--all", action="store_true", help="run every attack")
    parser.add_argument("--list", action="store_true", help="list the attacks and run none")


def run(arguments: argparse.Namespace) -> int:
    """Lists or runs attacks; exit 0 only if none succeeded."""
    from orchestrator.core.places import fixtures_root
    from orchestrator.sources.attacks import list_attacks, load_attack

    known = list_attacks(fixtures_root())
    chosen = known if arguments.all or arguments.list else arguments.attacks
    if not chosen:
        raise UsageError(
            "no-attack-named",
            "expected --all, --list or the ids of attacks, found neither",
            hint="run `memtrial attack --all`",
        )
    loaded = [load_attack(fixtures_root(), attack_id) for attack_id in chosen]
    if arguments.list:
        if arguments.json:
            render.document({"attacks": [a.card.model_dump(mode="json") for a in loaded]})
        else:
            for attack in loaded:
                render.text(f"{attack.card.id:<28} {attack.card.tried}")
            render.text("next: memtrial attack --all")
        return 0
    return _run(loaded, as_json=arguments.json)


def _run(loaded: list[LoadedAttack], *, as_json: bool) -> int:
    from orchestrator.pipeline.arena import run_attacks

    def show(row: AttackRow) -> None:
        word = "SUCCEEDED" if row.succeeded else "stopped"
        render.note(f"{row.id:<28} {word}: {row.evidence}")

    report = run_attacks(loaded, say=render.note, show=show)
    if as_json:
        render.document(report.model_dump(mode="json"))
    else:
        for row in report.attacks:
            mark = "SUCCEEDED" if row.succeeded else "stopped  "
            render.text(f"{mark} {row.id:<28} {row.tried}\n{'':<39}{row.stopped_by}")
    won = [row.id for row in report.attacks if row.succeeded]
    wrong = [f"attacks that succeeded: {', '.join(won)}"] if won else []
    wrong += [] if report.honest_trial_ok else ["an honest trial after them did not resolve"]
    wrong += [f"left behind: {', '.join(report.left_behind)}"] if report.left_behind else []
    if wrong:
        raise Negative("attack-succeeded", "; ".join(wrong), hint="read docs/threat-model.md")
    if not as_json:
        render.text(f"{len(report.attacks)} attacks, 0 successes; nothing left in the engine")
        render.text("next: read docs/threat-model.md for what is not held")
    return 0

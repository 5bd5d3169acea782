"""Shows, fact by fact of a task's answer key, where it went in a memory system, and where it was lost."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from orchestrator.cli import render
from orchestrator.core.errors import UsageError


def configure(parser: argparse.ArgumentParser) -> None:
    """Has no options of its own."""


def run(arguments: argparse.Namespace) -> int:
    """Explains."""
    from orchestrator.cli.memory import asked_words, lived
    from orchestrator.pipeline.whereabouts import whereabouts

    found = lived(arguments)
    if found.task is None:
        raise UsageError(
            "facts-not-known",
            "expected a task, whose answer key says what matters, found a history alone",
            hint="give --task ID; a history's own store is shown by `memtrial memory dump`",
        )
    facts = whereabouts(found, found.task.history, found.task.key)
    if arguments.json:
        render.document([asdict(fact) for fact in facts])
        return 0
    for fact in facts:
        render.text(f"{fact.fact_id}: {fact.statement}")
        for stage, told in fact.seen:
            render.text(f"  {stage:<15} {told}")
        render.text(f"  => {'lost: not ' + fact.lost_at if fact.lost_at else 'reaches the agent'}")
    lost = sum(fact.lost_at is not None for fact in facts)
    render.text(f"{len(facts) - lost} of {len(facts)} facts reach the agent")
    render.text(f"next: memtrial memory retrieve {asked_words(arguments)}")
    return 0

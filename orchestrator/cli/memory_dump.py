"""Shows a whole store, memory by memory, with what each rests on; or what it held at a time."""

from __future__ import annotations

import argparse

from orchestrator.cli import render
from orchestrator.core.words import counted


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the word."""
    parser.add_argument(
        "--as-of", metavar="TIME", help="what had been recorded by then (RFC 3339, UTC)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Dumps."""
    from orchestrator.cli.memory import asked_words, lived

    if arguments.as_of is not None:
        _check_time(arguments.as_of)
    found = lived(arguments, as_of=arguments.as_of)
    dump = found.dump()
    if arguments.json:
        render.document(dump.model_dump(mode="json"))
        return 0
    for memory in dump.memories:
        rests = ",".join(memory.evidence_event_ids) or "-"
        first = " ".join(memory.text.split())[:110]
        render.row(
            f"{memory.memory_id:<14} {memory.kind:<11} {memory.status:<11} {rests:<20} {first}"
        )
    for link in dump.links:
        render.row(f"{link.from_id} {link.kind} {link.to_id}")
    render.text(f"{counted(len(dump.memories), 'memory', 'memories')}, {dump.digest_sha256()}")
    render.text(f"next: memtrial memory retrieve {asked_words(arguments)}")
    return 0


def _check_time(text: str) -> None:
    from pydantic import TypeAdapter, ValidationError

    from orchestrator.core.errors import UsageError
    from orchestrator.model.base import UtcTime

    try:
        TypeAdapter[str](UtcTime).validate_python(text)
    except ValidationError as error:
        raise UsageError(
            "time-malformed",
            f"expected a time in UTC as 2026-01-05T09:00:00Z, found {text!r}",
            hint="give --as-of YYYY-MM-DDTHH:MM:SSZ",
        ) from error

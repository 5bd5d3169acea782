"""Lets a person resolve what a memory system held back, and logs the time: the maintenance of an end-to-end arm.

One candidate after another, with its evidence; the log is written after every answer, so it can be
interrupted. Shows nothing of the task that an agent will be asked.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.cli import render
from orchestrator.core.words import counted

if TYPE_CHECKING:
    from orchestrator.model.lifecycle import StoredMemory, StoreDump
    from orchestrator.model.review import ReviewLog
    from orchestrator.pipeline.reviewing import Answer

ANSWERS: dict[str, Answer] = {"p": "promote", "r": "reject", "s": "skip", "q": "stop"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the word."""
    parser.add_argument(
        "--log",
        type=Path,
        required=True,
        metavar="FILE",
        help="the review log to write or go on with",
    )
    parser.add_argument("--reviewer", required=True, metavar="NAME", help="who decides")


def run(arguments: argparse.Namespace) -> int:
    """Reviews."""
    from orchestrator.cli.memory import asked_words, lived
    from orchestrator.pipeline.reviewing import begin, walk

    found = lived(arguments, reviewed=False)
    log = begin(found, arguments.reviewer, _earlier(arguments.log))
    dump = found.dump()
    log = walk(
        found, log, lambda held: _ask(held, dump), lambda so_far: _save(arguments.log, so_far)
    )
    _save(arguments.log, log)
    if arguments.json:
        render.document(log.model_dump(mode="json"))
        return 0
    minutes = f"{log.seconds_total / 60:.1f}"
    render.text(
        f"{len(log.entries)} of {counted(log.held, 'held candidate')} resolved in {minutes} minutes, {log.open} open"
    )
    render.text(
        "next: name the folder of such logs (TASK.json) as `reviews` of an arm (docs/how-to/review-what-was-held.md)"
        if not log.open
        else f"next: memtrial memory review {asked_words(arguments)} --log {arguments.log} --reviewer {arguments.reviewer}"
    )
    return 0


def _ask(memory: StoredMemory, dump: StoreDump) -> Answer:
    render.note(
        f"\n{memory.memory_id} ({memory.kind}), rests on {', '.join(memory.evidence_event_ids)}"
    )
    render.note(f"  {memory.text}")
    against = {
        link.to_id
        for link in dump.links
        if (link.kind, link.from_id) == ("contradicts", memory.memory_id)
    }
    for other in dump.memories:
        if other.memory_id in against:
            render.note(f"  against {other.memory_id}: {other.text}")
    while True:
        render.note("[p]romote, [r]eject, [s]kip, [q]uit?")
        try:
            given = input().strip().lower()[:1]
        except EOFError:
            return "stop"
        if given in ANSWERS:
            return ANSWERS[given]


def _earlier(path: Path) -> ReviewLog | None:
    from orchestrator.core.files import read_confined
    from orchestrator.model.review import MAX_LOG_BYTES, ReviewLog

    if not path.exists():
        return None
    data = read_confined(path.parent, path.name, max_bytes=MAX_LOG_BYTES)
    return ReviewLog.parse(data, where=path.name, max_bytes=MAX_LOG_BYTES)


def _save(path: Path, log: ReviewLog) -> None:
    from orchestrator.core.files import write_atomic

    write_atomic(path, log.canonical())

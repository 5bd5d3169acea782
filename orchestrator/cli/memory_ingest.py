"""Takes a memory system up to its frozen store, and says what became of the events."""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.cli import render
from orchestrator.core.words import counted

if TYPE_CHECKING:
    from orchestrator.pipeline.byhand import Lived


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the word."""
    parser.add_argument("--out", type=Path, metavar="DIR", help="write every document there")


def run(arguments: argparse.Namespace) -> int:
    """Ingests, and prints counts and digests."""
    from orchestrator.cli.memory import asked_words, lived
    from orchestrator.core.files import write_atomic

    found = lived(arguments)
    if arguments.out:
        for name, data in found.documents.items():
            suffix = "" if name.endswith(".tar") else ".json"
            write_atomic(arguments.out / f"{name}{suffix}", data)
    if arguments.json:
        render.document(found.remembered.model_dump(mode="json"))
        return 0
    events = [event for report in found.captures().reports for event in report.events]
    kept = sum(event.outcome == "captured" for event in events)
    reasons = Counter((event.reason or "").split(" of ")[0] for event in events if event.reason)
    extraction = found.extraction()
    render.text(f"{counted(len(events), 'event')}: {kept} captured, {len(events) - kept} dropped")
    for reason, number in sorted(reasons.items()):
        render.text(f"  {number} x {reason}")
    render.text(f"{sum(event.redactions for event in events)} secrets taken out")
    cut = [event.cut_characters for event in events if event.cut_characters]
    if cut:
        told = f"{counted(sum(cut), 'character')} of {counted(len(cut), 'captured event')}"
        render.text(f"{told} not kept: cut off the end")
    decisions = Counter(candidate.decision for candidate in extraction.candidates)
    told = ", ".join(f"{number} {name}" for name, number in sorted(decisions.items())) or "none"
    render.text(f"candidates ({extraction.extractor or 'no extraction'}): {told}")
    for line in _reviewed(found):
        render.text(line)
    render.text(f"store: {counted(len(found.dump().memories), 'memory', 'memories')}")
    for record in found.remembered.steps:
        render.text(f"  {record.step.value:<9} {(record.answer_sha256 or '-')[:16]}")
    if arguments.out:
        render.text(f"wrote {counted(len(found.documents), 'document')} to {arguments.out}")
    render.text(f"next: memtrial memory retrieve {asked_words(arguments)}")
    return 0


def _reviewed(found: Lived) -> list[str]:
    """Returns a line for each candidate that a person answered on: what came of it, and by which rule."""
    answered = {entry.candidate_id for entry in found.review.entries} if found.review else set()
    return [
        f"  answered: {candidate.candidate_id} {candidate.decision} ({candidate.rule})"
        for candidate in found.extraction().candidates
        if candidate.candidate_id in answered
    ]

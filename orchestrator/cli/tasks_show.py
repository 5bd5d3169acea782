"""Shows one task as a person reads it: prompt, timeline, facts, tests, difficulty. `--no-key` hides the answer."""

from __future__ import annotations

import argparse

from orchestrator.cli import render
from orchestrator.sources.loader import LoadedTask

BOUNDARIES = {
    "process": "apart from the code under test",
    "values": "they hand over values, the grader compares; code under test shares their process, so it can read names and inputs and hand over what capability tests expect",
    "in_process": "together with the code under test, which could forge their outcome",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the word."""
    parser.add_argument("task", metavar="TASK")
    parser.add_argument("--no-key", action="store_true", help="leave facts and hidden tests out")


def run(arguments: argparse.Namespace) -> int:
    """Prints one task."""
    from orchestrator.cli.tasks import fixtures_of
    from orchestrator.pipeline.validate.paper import difficulty
    from orchestrator.sources.loader import load_task

    task = load_task(fixtures_of(arguments), arguments.task)
    hard = difficulty(task)
    if arguments.json:
        document = {
            "card": task.card.model_dump(mode="json"),
            "brief": task.brief.model_dump(mode="json"),
            "history": task.history.model_dump(mode="json"),
            "source": task.source.model_dump(mode="json"),
            "difficulty": hard.model_dump(mode="json"),
        }
        if not arguments.no_key:
            document["key"] = task.key.card.model_dump(mode="json")
        render.document(document)
        return 0
    _print_task(task)
    if not arguments.no_key:
        _print_key(task)
    render.row(
        f"Difficulty: the first decisive event is number {hard.fts5_rank or 'none'} of {hard.events} by FTS5 and {hard.hash_rank or 'none'} by hash embedding; words shared with the prompt: {', '.join(hard.shared_words) or 'none'}"
    )
    render.text(f"next: memtrial tasks validate {task.card.id}")
    return 0


def _print_task(task: LoadedTask) -> None:
    card = task.card
    render.row(f"{card.id}: {card.title}")
    render.row(
        f"{card.category.value}, {card.language} with {card.runner.kind}, source {card.source} ({task.source.licence}), created {card.created_on}, calibration {card.calibration}"
    )
    render.row(f"\nPrompt\n  {task.brief.prompt}")
    render.row(f"  may change: {', '.join(task.brief.allowed_paths)}\n\nTimeline")
    for episode in task.history.episodes:
        render.row(f"  {episode.episode_id}  {episode.started_at}")
        for event in episode.events:
            tool = f"$ {event.tool.input} (exit {event.tool.exit_code}): " if event.tool else ""
            text = event.text.replace("\n", " / ")
            render.row(f"    {event.event_id} {event.role:<9} {tool}{text}")


def _print_key(task: LoadedTask) -> None:
    key = task.key.card
    render.row("\nFacts")
    for fact in key.gold_facts:
        render.row(
            f"  {fact.id} ({fact.kind}, {', '.join(fact.supporting_event_ids)}): {fact.statement}"
        )
    for stale in key.stale_facts:
        render.row(f"  {stale.id} (superseded, {', '.join(stale.event_ids)}): {stale.statement}")
    render.row(f"\nHidden tests ({BOUNDARIES[key.boundary]})")
    for test in key.fail_to_pass:
        given = f" gives {', '.join(map(repr, test.values))}" if test.values else ""
        render.row(f"  {test.group:<10} {test.id}{given}")
    render.row(
        f"  and {len(task.key.pass_to_pass)} tests of the base suite that must go on passing\n"
    )

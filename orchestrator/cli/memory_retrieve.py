"""Asks a frozen store, and shows ranks, what was dropped, and the text that an agent would get."""

from __future__ import annotations

import argparse

from orchestrator.cli import render


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the word."""
    parser.add_argument(
        "--query", metavar="TEXT", help="what to ask (default: the prompt of the task)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Retrieves and compiles."""
    from orchestrator.cli.memory import asked_words, lived

    found = lived(arguments, prompt=arguments.query)
    context, ranked = found.remembered.context, found.ranked()
    if arguments.json:
        render.document(
            {
                "ranked": ranked.model_dump(mode="json"),
                "context": context.model_dump(mode="json") if context else None,
            }
        )
        return 0
    dropped = {item.item_id: item.reason for item in context.dropped} if context else {}
    for place, item in enumerate(ranked.items, 1):
        channels = " ".join(f"{c.channel}:{c.rank}" for c in item.channels)
        fate = dropped.get(item.memory_id, "included")
        first = " ".join(item.text.split())[:100]
        render.row(f"{place:>4} {item.memory_id:<14} {fate:<14} {channels:<24} {first}")
    if context:
        limit = found.condition.budget.max_tokens if found.condition.budget else 0
        render.text(f"{context.tokens} of {limit} tokens; the agent gets:")
        render.text(context.text)
    else:
        render.text("this arm puts nothing before the agent")
    render.text(f"next: memtrial memory explain {asked_words(arguments)}")
    return 0

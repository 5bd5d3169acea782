"""One memory system on one history, by hand: `memtrial memory ingest|retrieve|dump|explain|review`.

Takes the system of an arm (--condition) through the life that it has in a trial, over the history of a task
(--task) or of a file (--history), without engine and agent.
"""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.cli import render
from orchestrator.cli.arguments import Parser
from orchestrator.core.errors import UsageError

if TYPE_CHECKING:
    from orchestrator.pipeline.byhand import Lived

WORDS = {
    "ingest": "capture, extract, store and freeze; --out keeps every document",
    "retrieve": "ask the frozen store, and show what an agent would get",
    "dump": "show the whole store, or what it held at a time",
    "explain": "show, fact by fact, where it went",
    "review": "let a person resolve what was held back, and log the time",
}


class _WordParser(Parser):
    """The parser of a word: --json may also have been given before it."""

    def __init__(self, *, prog: str, description: str) -> None:
        super().__init__(prog.removeprefix("memtrial "), description)
        for action in self._actions:
            if action.dest == "json":
                action.default = argparse.SUPPRESS


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the words, each with its own options."""
    parser.set_defaults(word=None)
    words = parser.add_subparsers(
        dest="word", metavar="WORD", required=False, parser_class=_WordParser
    )
    for word, text in WORDS.items():
        below = words.add_parser(word, help=text, description=text)
        below.add_argument(
            "--condition",
            default="raw_fts",
            metavar="ID",
            help="whose memory system (default raw_fts); `memtrial list conditions`",
        )
        below.add_argument("--task", metavar="ID", help="take the history of a task")
        below.add_argument("--history", type=Path, metavar="FILE", help="take a history file")
        importlib.import_module(f"orchestrator.cli.memory_{word}").configure(below)


def run(arguments: argparse.Namespace) -> int:
    """Runs the word."""
    if arguments.word is None:
        raise UsageError(
            "word-not-given",
            f"expected one of {', '.join(WORDS)}, found none",
            hint="see `memtrial memory --help`",
        )
    result: int = importlib.import_module(f"orchestrator.cli.memory_{arguments.word}").run(
        arguments
    )
    return result


def lived(
    arguments: argparse.Namespace,
    *,
    prompt: str | None = None,
    as_of: str | None = None,
    reviewed: bool = True,
) -> Lived:
    """Takes the life that the options name; `reviewed` carries out the arm's review logs.

    Raises:
        Negative: the memory system broke its contract; the text says at which step and how.
    """
    from orchestrator.core.errors import Negative
    from orchestrator.core.places import fixtures_root
    from orchestrator.pipeline.byhand import Asked, live_by_hand

    asked = Asked(
        condition=arguments.condition,
        task=arguments.task,
        history=arguments.history,
        prompt=prompt,
        as_of=as_of,
        reviewed=reviewed,
    )
    found = live_by_hand(asked, fixtures=fixtures_root())
    if not found.pinned:
        render.note(
            f"condition {found.condition.id}: its code is not what the registry pins; a plan refuses it until `memtrial list conditions --pin`"
        )
    failure = found.remembered.failure
    if failure is not None:
        raise Negative(
            "memory-contract-failure",
            f"condition {found.condition.id}, step {failure.step.value}: {failure.kind} ({failure.rule}): {failure.detail}",
            hint="review the arm's store again (docs/how-to/review-what-was-held.md)"
            if failure.rule == "review-of-this-store"
            else "mend the adapter and run its contract tests (docs/how-to/plug-in-a-memory.md)",
        )
    return found


def asked_words(arguments: argparse.Namespace) -> str:
    """Returns the options that name the same life again, for a `next:` line."""
    source = f"--task {arguments.task}" if arguments.task else f"--history {arguments.history}"
    return f"--condition {arguments.condition} {source}"

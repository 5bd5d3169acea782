"""Says what a live run may do, in plain words, and signs it: `memtrial approve WORD`.

local: one person allows one capped, directional run. The others are for smoke and official, which need
several people: propose, show, sign (each approver), withdraw, status.
"""

from __future__ import annotations

import argparse
import importlib

from orchestrator.cli.arguments import WordParser

WORDS = {
    "local": "allow one local run of a plan, with your own key",
    "propose": "write down what a run of phase smoke or official would need, for others to sign",
    "show": "say all that a signature under a proposal would allow; sign nothing",
    "sign": "add an approver's signature; with --curator also publish it",
    "withdraw": "take a published approval back",
    "status": "show proposals, who signed, and what still holds",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the words, each with its own options."""
    words = parser.add_subparsers(
        dest="word", required=True, metavar="WORD", parser_class=WordParser
    )
    for word, text in WORDS.items():
        below = words.add_parser(word, help=text, description=text)
        importlib.import_module(f"orchestrator.cli.approve_{word}").configure(below)


def run(arguments: argparse.Namespace) -> int:
    """Runs the word."""
    module = importlib.import_module(f"orchestrator.cli.approve_{arguments.word}")
    result: int = module.run(arguments)
    return result

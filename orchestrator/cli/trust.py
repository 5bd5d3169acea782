"""The trust root: who owns it, who approves, who curates. `memtrial trust init|refresh|roles|rotate|status`.

A root lives in git below approvals/tuf; a machine starts from the first root in its system folder.
"""

from __future__ import annotations

import argparse
import importlib

from orchestrator.cli.arguments import WordParser

WORDS = {
    "init": "make a trust root and this machine's starting point",
    "refresh": "let the root hold on, also after it has expired",
    "roles": "give approvers, curators, the supervisor or the ledger other keys",
    "rotate": "change the owners of the root",
    "status": "show versions, people, thresholds and expiry",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the words, each with its own options."""
    words = parser.add_subparsers(
        dest="word", required=True, metavar="WORD", parser_class=WordParser
    )
    for word, text in WORDS.items():
        below = words.add_parser(word, help=text, description=text)
        importlib.import_module(f"orchestrator.cli.trust_{word}").configure(below)


def run(arguments: argparse.Namespace) -> int:
    """Runs the word."""
    module = importlib.import_module(f"orchestrator.cli.trust_{arguments.word}")
    result: int = module.run(arguments)
    return result

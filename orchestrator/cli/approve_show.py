"""Says all that a signature under a proposal would allow, before anybody signs. Writes nothing."""

from __future__ import annotations

import argparse
import shlex

from orchestrator.cli import render
from orchestrator.cli.trust_options import add_repository, approvals_of, onward


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the word."""
    parser.add_argument("id", metavar="ID", help="name of the proposal")
    add_repository(parser)


def run(arguments: argparse.Namespace) -> int:
    """Reads the proposal and its plan, and says them in plain words."""
    from orchestrator.trust.approvals import approval_in_words
    from orchestrator.trust.proposals import plan_of, read_proposal

    approvals = approvals_of(arguments)
    approval = read_proposal(approvals, arguments.id)
    words = approval_in_words(approval, plan_of(approvals, approval))
    if arguments.json:
        render.document({"id": arguments.id, "allows": list(words)})
        return 0
    render.text("a signature would allow ONE run:")
    for line in words:
        render.row(f"  {line}")
    name = shlex.quote(arguments.id)
    render.text(onward(arguments, f"memtrial approve sign {name} --key YOUR-KEY.pem"))
    return 0

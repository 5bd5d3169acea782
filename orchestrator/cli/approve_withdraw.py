"""Takes a published approval out of the trust root, with a signed note of why."""

from __future__ import annotations

import argparse
import unicodedata
from pathlib import Path
from typing import Any

from orchestrator.cli import render
from orchestrator.cli.arguments import fitting
from orchestrator.cli.trust_options import add_repository, approvals_of, onward


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the word."""
    parser.add_argument("id", metavar="ID", help="name of the approval")
    parser.add_argument(
        "--curator", type=Path, required=True, metavar="FILE", help="a curator's private key"
    )
    parser.add_argument(
        "--reason",
        type=_reason,
        required=True,
        metavar="TEXT",
        help="for those who ask later: one line, at most 200 characters",
    )
    add_repository(parser)


def _reason(text: str) -> str:
    """Returns the reason, composed as signed documents are (a keyboard may give letter and accent apart)."""
    check = fitting(_rule, "1 to 200 printable characters in one line")
    return check(unicodedata.normalize("NFC", text))


def _rule() -> Any:
    from orchestrator.model.approval import Reason

    return Reason


def run(arguments: argparse.Namespace) -> int:
    """Withdraws."""
    from orchestrator.core.clock import unix_time_s
    from orchestrator.core.keys import SigningKey
    from orchestrator.trust.changes import withdraw_approval

    root = withdraw_approval(
        approvals_of(arguments),
        arguments.id,
        SigningKey.load(arguments.curator),
        reason=arguments.reason,
        now_s=int(unix_time_s()),
    )
    if arguments.json:
        render.document({"id": arguments.id, "left": sorted(root.approvals)})
        return 0
    render.text(f"withdrawn; {len(root.approvals)} approvals hold. Commit and push approvals/")
    render.text(onward(arguments, "memtrial approve status"))
    return 0

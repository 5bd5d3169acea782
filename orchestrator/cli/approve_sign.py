"""Adds an approver's signature to a proposal; a curator publishes it once enough approvers have signed."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.cli import render
from orchestrator.cli.trust_options import add_repository, approvals_of, onward
from orchestrator.core.errors import UsageError

if TYPE_CHECKING:
    from orchestrator.trust.proposals import Standing


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the word."""
    parser.add_argument("id", metavar="ID", help="name of the proposal")
    parser.add_argument("--key", type=Path, metavar="FILE", help="an approver's private key")
    parser.add_argument(
        "--curator", type=Path, metavar="FILE", help="a curator's private key: publish it too"
    )
    add_repository(parser)


def run(arguments: argparse.Namespace) -> int:
    """Signs, publishes, or both."""
    from orchestrator.core.clock import unix_time_s
    from orchestrator.core.keys import SigningKey
    from orchestrator.trust.approvals import approval_in_words
    from orchestrator.trust.ceremony import current
    from orchestrator.trust.changes import publish_approval
    from orchestrator.trust.proposals import (
        check_not_withdrawn,
        check_root_named,
        plan_of,
        read_proposal,
        sign_proposal,
        standings,
    )
    from orchestrator.trust.roles import load_roles

    if arguments.key is None and arguments.curator is None:
        raise UsageError(
            "no-key-given",
            "expected --key of an approver or --curator, found neither",
            hint="add --key YOUR-KEY.pem",
        )
    approvals, now_s = approvals_of(arguments), int(unix_time_s())
    root = current(approvals, now_s=now_s)
    check_not_withdrawn(root, arguments.id)
    approval = read_proposal(approvals, arguments.id)
    check_root_named(root, approval)
    words = approval_in_words(approval, plan_of(approvals, approval))
    if not arguments.json:
        render.text("a signature allows ONE run:")
        for line in words:
            render.row(f"  {line}")
    approver = None if arguments.key is None else SigningKey.load(arguments.key)
    # What cannot be published as it was asked leaves no signature either.
    if arguments.curator is not None:
        curator = SigningKey.load(arguments.curator)
        publish_approval(approvals, approval, curator, now_s=now_s, approver=approver)
    elif approver is not None:
        roles = load_roles(root.roles_data, where="roles")
        sign_proposal(approvals, approval, approver, roles)
    (standing,) = [s for s in standings(approvals, now_s=now_s) if s.approval_id == arguments.id]
    _told(arguments, words, standing)
    return 0


def _told(arguments: argparse.Namespace, words: tuple[str, ...], standing: Standing) -> None:
    if arguments.json:
        render.document(
            {
                "id": arguments.id,
                "allows": list(words),
                "signers": list(standing.signers),
                "needed": standing.needed,
                "published": standing.published,
            }
        )
        return
    render.text(f"{len(standing.signers)} of {standing.needed} signatures")
    name = shlex.quote(arguments.id)
    if standing.published:
        render.text("published; commit and push approvals/")
        render.text(onward(arguments, f"memtrial gate PLAN --approval {name}"))
    elif len(standing.signers) >= standing.needed:
        render.text(onward(arguments, f"memtrial approve sign {name} --curator CURATOR-KEY.pem"))
    else:
        render.text(onward(arguments, f"memtrial approve sign {name} --key ANOTHER-KEY.pem"))

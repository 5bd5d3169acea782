"""Lets the trust root hold on: a curator renews snapshot and timestamp; with two owners the rest too."""

from __future__ import annotations

import argparse
from pathlib import Path

from orchestrator.cli import render
from orchestrator.cli.trust_options import add_repository, approvals_of, onward


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the word."""
    parser.add_argument(
        "--curator", type=Path, required=True, metavar="FILE", help="a curator's private key"
    )
    parser.add_argument(
        "--owner",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="an owner's private key (two of them): renews targets too, and the root where it ends within 90 days",
    )
    add_repository(parser)


def run(arguments: argparse.Namespace) -> int:
    """Renews; writes nothing that does not verify."""
    from orchestrator.core.clock import unix_time_s, utc_text_of
    from orchestrator.core.keys import SigningKey
    from orchestrator.trust.changes import refresh_root

    root = refresh_root(
        approvals_of(arguments),
        curator=SigningKey.load(arguments.curator),
        owners=tuple(SigningKey.load(path) for path in arguments.owner),
        now_s=int(unix_time_s()),
    )
    if arguments.json:
        render.document({"root_version": root.root_version, "expires_s": root.expires_s})
        return 0
    render.text(f"root version {root.root_version}; all holds until {utc_text_of(root.expires_s)}")
    render.text("commit and push approvals/")
    render.text(onward(arguments, "memtrial trust status"))
    return 0

"""Changes the owners of the trust root: two of the old and two of the new owners sign."""

from __future__ import annotations

import argparse
from pathlib import Path

from orchestrator.cli import render
from orchestrator.cli.trust_init import private_of
from orchestrator.cli.trust_options import add_repository, approvals_of, onward


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the word."""
    for who, text in (
        ("owner", "key of an owner that there is to be (name all; private for two of them)"),
        ("old-owner", "private key of a present owner (two of them)"),
    ):
        parser.add_argument(
            f"--{who}", type=Path, action="append", default=[], metavar="FILE", help=text
        )
    parser.add_argument(
        "--curator", type=Path, required=True, metavar="FILE", help="a curator's private key"
    )
    add_repository(parser)


def run(arguments: argparse.Namespace) -> int:
    """Rotates; writes nothing that does not verify."""
    from orchestrator.core.clock import unix_time_s
    from orchestrator.core.keys import SigningKey
    from orchestrator.trust.ceremony import load_public
    from orchestrator.trust.changes import rotate_root

    version = rotate_root(
        approvals_of(arguments),
        owners=tuple(load_public(path) for path in arguments.owner),
        old=tuple(SigningKey.load(path) for path in arguments.old_owner),
        new=private_of(arguments.owner),
        curator=SigningKey.load(arguments.curator),
        now_s=int(unix_time_s()),
    )
    if arguments.json:
        render.document({"root_version": version})
        return 0
    render.text(f"root version {version}; commit and push approvals/")
    render.text("approvals that name an older root must be proposed and signed again")
    render.text(onward(arguments, "memtrial trust status"))
    return 0

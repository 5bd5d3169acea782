"""Gives roles other keys: two owners sign, and one who is a curator afterwards."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.cli import render
from orchestrator.cli.trust_options import add_repository, approvals_of, onward
from orchestrator.core.errors import UsageError

if TYPE_CHECKING:
    from orchestrator.model.roles import RoleName

# A curator's key signs the change, so the new curators have an option of another name.
OPTIONS: dict[RoleName, str] = {
    "approver": "approver",
    "curator": "new-curator",
    "supervisor": "supervisor",
    "ledger": "ledger",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the word."""
    for who, option in OPTIONS.items():
        parser.add_argument(
            f"--{option}",
            dest=who + "s",
            type=Path,
            action="append",
            default=[],
            metavar="FILE",
            help=f"public key of {who}: name all that there are to be; without this option they stay",
        )
    parser.add_argument(
        "--owner",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="an owner's private key (two of them)",
    )
    parser.add_argument(
        "--curator",
        type=Path,
        required=True,
        metavar="FILE",
        help="private key of one who is a curator afterwards",
    )
    add_repository(parser)


def run(arguments: argparse.Namespace) -> int:
    """Changes the roles; writes nothing that does not verify."""
    from orchestrator.core.clock import unix_time_s
    from orchestrator.core.keys import SigningKey
    from orchestrator.trust.ceremony import load_public
    from orchestrator.trust.changes import change_roles

    named = {
        who: tuple(load_public(path) for path in getattr(arguments, who + "s"))
        for who in OPTIONS
        if getattr(arguments, who + "s")
    }
    if not named:
        raise UsageError(
            "no-role-given",
            f"expected keys of a role, found none of {', '.join(f'--{o}' for o in OPTIONS.values())}",
            hint="name all keys that the role is to have",
        )
    root = change_roles(
        approvals_of(arguments),
        named,
        owners=tuple(SigningKey.load(path) for path in arguments.owner),
        curator=SigningKey.load(arguments.curator),
        now_s=int(unix_time_s()),
    )
    keyids = {who: [key.keyid for key in keys] for who, keys in named.items()}
    if arguments.json:
        render.document({"root_version": root.root_version, "roles": keyids})
        return 0
    for who, ids in keyids.items():
        render.row(f"{who}: {', '.join(ids)}")
    render.text(f"root version {root.root_version}; commit and push approvals/")
    render.text(
        "approvals that name the roles as they were must be proposed and signed again; the next command lists them"
    )
    if "supervisor" in named:
        render.text("as root on its machine: put that keyid into gate.json as supervisor_keyid")
    render.text(onward(arguments, "memtrial approve status"))
    return 0

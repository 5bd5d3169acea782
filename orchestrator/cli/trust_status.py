"""Shows the trust root: its version and hash, the people by key id, thresholds, and the next expiry."""

from __future__ import annotations

import argparse
from typing import Any

from orchestrator.cli import render
from orchestrator.cli.trust_options import add_repository, approvals_of, onward


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the word."""
    add_repository(parser)


def run(arguments: argparse.Namespace) -> int:
    """Verifies and shows."""
    from orchestrator.core.clock import unix_time_s, utc_text_of
    from orchestrator.core.keys import PublicKey
    from orchestrator.trust.ceremony import TUF, current
    from orchestrator.trust.roles import load_roles
    from orchestrator.trust.root.make import load

    approvals = approvals_of(arguments)
    root = current(approvals, now_s=int(unix_time_s()))
    roles = load_roles(root.roles_data, where="roles")
    people: dict[str, dict[str, Any]] = {
        "owner": {
            "threshold": load(approvals / TUF).root.roles["root"].threshold,
            "keyids": sorted(PublicKey(raw).keyid for raw in root.owners),
        }
    }
    people |= {
        name: {"threshold": role.threshold, "keyids": sorted(role.keys)}
        for name, role in roles.roles.items()
    }
    if arguments.json:
        render.document(
            {
                "name": roles.document.name,
                "kind": roles.document.kind,
                "root_version": root.root_version,
                "root_sha256": root.root_sha256,
                "expires_s": root.expires_s,
                "roles": people,
                "approvals": sorted(root.approvals),
            }
        )
        return 0
    told = (
        ""
        if roles.document.kind == "organisation"
        else f" ({roles.document.kind}: approves nothing real)"
    )
    render.text(f"{roles.document.name}{told}, root version {root.root_version}")
    render.text(f"root sha256 {root.root_sha256}")
    for name, role in people.items():
        short = [keyid[:16] for keyid in role["keyids"]]
        render.row(f"{name}: {role['threshold']} of {len(short)}: {', '.join(short)}")
    render.text(
        f"{len(root.approvals)} approvals published; all holds until {utc_text_of(root.expires_s)}"
    )
    render.text(onward(arguments, "memtrial approve status"))
    return 0

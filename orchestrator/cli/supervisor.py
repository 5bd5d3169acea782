"""Runs the supervisor's service, as a user of its own: answers the gate, dispatches approved runs. For its service file.

Reads its key and the providers' keys once, at its start, from files that only its user can read.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
from pathlib import Path

from orchestrator.cli import render
from orchestrator.cli.trust_options import add_repository, add_system, repository_of


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    parser.add_argument(
        "--key", type=Path, required=True, metavar="FILE", help="the supervisor's private key"
    )
    parser.add_argument(
        "--provider-keys",
        type=Path,
        metavar="FILE",
        help="the providers' keys (JSON, mode 0600); without them it answers the gate and dispatches nothing",
    )
    parser.add_argument(
        "--socket",
        type=Path,
        default=Path("/run/memtrial/supervisor.sock"),
        metavar="PATH",
        help="where it listens (default: /run/memtrial/supervisor.sock)",
    )
    parser.add_argument(
        "--allow-uid",
        type=int,
        action="append",
        default=[],
        metavar="UID",
        help="a user who is answered (repeatable), besides root and the supervisor's own, who validate",
    )
    add_repository(parser)
    add_system(parser)


def allowed_uids(arguments: argparse.Namespace) -> frozenset[int]:
    """Returns who is answered: root and this user, who alone can read what a validation reads, and operators."""
    return frozenset({0, os.geteuid(), *arguments.allow_uid})


def run(arguments: argparse.Namespace) -> int:
    """Serves until SIGTERM or Ctrl-C."""
    from orchestrator.gateway.keys import keys_from_file
    from orchestrator.supervisor.service import Service, load_identity, means_of

    identity = load_identity(arguments.system, arguments.key, allowed_uids=allowed_uids(arguments))
    means = None
    if arguments.provider_keys is not None:
        means = means_of(
            identity,
            keys_from_file(arguments.provider_keys),
            system=arguments.system.absolute(),
            repository=repository_of(arguments),
            sockets=arguments.socket.parent,
        )
    service = Service(identity, arguments.socket, means)
    signal.signal(signal.SIGTERM, lambda *_: service.close())
    facts = {
        "identity": identity.config.supervisor_identity,
        "keyid": identity.key.public.keyid,
        "uid": os.geteuid(),
        "socket": str(arguments.socket),
        "manifest_sha256": identity.manifest_sha256,
        "dispatches": means is not None,
    }
    if arguments.json:
        render.document(facts)
    else:
        for name, value in facts.items():
            render.text(f"{name:<16} {value}")
        render.text("next: memtrial gate PLAN --approval ID")
    try:
        service.serve()
    except KeyboardInterrupt:
        with contextlib.suppress(OSError):
            service.close()
    return 0

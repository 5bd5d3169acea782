"""Says what an official run still lacks on this machine, all of it at once; `make official` calls it.

Dispatch of smoke and official runs is not built yet: with everything in place it still refuses.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from orchestrator.cli import render
from orchestrator.cli.trust_options import add_repository, add_system, repository_of
from orchestrator.core.errors import ApprovalRefused


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    parser.add_argument("plan", type=Path, nargs="?", metavar="PLAN", help="plan of phase official")
    parser.add_argument("--approval", metavar="ID", help="name of the approval")
    parser.add_argument(
        "--socket", type=Path, default=Path("/run/memtrial/supervisor.sock"), metavar="PATH"
    )
    add_repository(parser)
    add_system(parser)


def run(arguments: argparse.Namespace) -> int:
    """Lists what is missing and refuses."""
    missing = _missing(arguments)
    if arguments.json:
        render.document({"missing": missing, "dispatch_authorized": False})
    else:
        for line in missing:
            render.row(f"missing: {line}")
    raise ApprovalRefused(
        "official-not-ready" if len(missing) > 1 else "dispatch-not-built",
        f"an official run: expected everything that it needs, found {len(missing)} things missing; nothing was started",
        hint="docs/security/ceremonies.md says how each is made; a local run needs `memtrial approve local`",
    )


def _missing(arguments: argparse.Namespace) -> list[str]:
    from orchestrator.trust.gate.before import BOOTSTRAP, CONFIG, TUF_FOLDER
    from orchestrator.trust.gate.machine import MANIFEST

    repository = repository_of(arguments)
    needed: list[tuple[bool, str]] = [
        (arguments.plan is None, "a plan: make official PLAN=plan.json"),
        (
            arguments.plan is not None and not arguments.plan.is_file(),
            f"the plan's file {arguments.plan}",
        ),
        (arguments.approval is None, "an approval: make official APPROVAL=ID"),
        (
            not (repository / TUF_FOLDER / "metadata").is_dir(),
            f"a trust root in {TUF_FOLDER}: memtrial trust init",
        ),
        *(
            (
                not (arguments.system / name).is_file(),
                f"{arguments.system / name}, which root provisions",
            )
            for name in (CONFIG, BOOTSTRAP, MANIFEST)
        ),
        (
            not arguments.socket.exists(),
            f"a supervisor at {arguments.socket}: docs/security/supervisor.md",
        ),
        (True, "dispatch by the supervisor, which this version does not have"),
    ]
    return [text for absent, text in needed if absent]

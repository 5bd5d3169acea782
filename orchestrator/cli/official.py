"""Dispatches an approved run of phase smoke or official: gate, reserve, run, seal, attest. `make official` calls it.

Says first what is missing on this machine, all of it at once. The supervisor repeats the gate and has the provider
keys; this process works the trials off and seals them with the ledger's key.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.cli import render
from orchestrator.cli.session import add_workers, work
from orchestrator.cli.trust_options import add_repository, add_system, repository_of
from orchestrator.core.errors import ApprovalRefused, MemtrialError

if TYPE_CHECKING:
    from orchestrator.pipeline.watch import Watch


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    parser.add_argument(
        "plan", type=Path, nargs="?", metavar="PLAN", help="plan of phase smoke or official"
    )
    parser.add_argument("--approval", metavar="ID", help="name of the published approval")
    parser.add_argument(
        "--key", type=Path, metavar="FILE", help="the ledger's private key, which seals the run"
    )
    parser.add_argument(
        "--socket",
        type=Path,
        default=Path("/run/memtrial/supervisor.sock"),
        metavar="PATH",
        help="of the supervisor (default: /run/memtrial/supervisor.sock)",
    )
    add_workers(parser)
    add_repository(parser)
    add_system(parser)


def run(arguments: argparse.Namespace) -> int:
    """Lists what is missing and refuses, or has the run dispatched and works it off."""
    missing = _missing(arguments)
    if missing:
        if arguments.json:
            render.document({"missing": missing, "dispatch_authorized": False})
        else:
            for line in missing:
                render.row(f"missing: {line}")
        raise ApprovalRefused(
            "official-not-ready",
            f"an official run: expected everything that it needs, found {len(missing)} things missing; nothing was started",
            hint="docs/security/ceremonies.md says how each is made; a local run needs `memtrial approve local`",
        )
    _dispatch(arguments)
    return 0


def _dispatch(arguments: argparse.Namespace) -> None:
    from orchestrator.core.keys import SigningKey
    from orchestrator.pipeline.dispatched import Supervised
    from orchestrator.pipeline.run import read_plan
    from orchestrator.pipeline.setup import start_run

    plan = read_plan(arguments.plan)
    if plan.phase == "local":
        raise ApprovalRefused(
            "phase-local",
            "expected a plan of phase smoke or official, found phase local",
            hint="approve it yourself: `memtrial approve local PLAN --max-usd N`",
        )
    keyid = SigningKey.load(arguments.key).public.keyid
    supervised = Supervised(plan, arguments.approval, sealing_keyid=keyid, path=arguments.socket)

    def go(watch: Watch, workers: int) -> Path:
        return start_run(plan, watch=watch, workers=workers, supervised=supervised)

    # Where `finish` looks for the key of every seal.
    os.environ["MEMTRIAL_SIGNING_KEY"] = str(arguments.key)
    work(go, arguments)


def _missing(arguments: argparse.Namespace) -> list[str]:
    from orchestrator.trust.gate.before import BOOTSTRAP, CONFIG, TUF_FOLDER
    from orchestrator.trust.gate.machine import MANIFEST

    repository = repository_of(arguments)
    plan, key = arguments.plan, arguments.key
    needed: list[tuple[bool, str]] = [
        (plan is None, "a plan: make official PLAN=plan.json"),
        (plan is not None and not plan.is_file(), f"the plan's file {plan}"),
        (arguments.approval is None, "an approval: make official APPROVAL=ID"),
        (key is None, "the ledger's key, which seals the run: make official KEY=ledger.key.pem"),
        (key is not None and not key.is_file(), f"the key's file {key}"),
        (
            not (repository / TUF_FOLDER / "metadata").is_dir(),
            f"a trust root in {TUF_FOLDER}: `memtrial trust init`",
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
    ]
    found = [text for absent, text in needed if absent]
    return found + (_unfit(arguments, repository) if (repository / TUF_FOLDER).is_dir() else [])


def _unfit(arguments: argparse.Namespace, repository: Path) -> list[str]:
    """Says what the clone's own trust root does not have of the key and the approval that were named."""
    from orchestrator.core.clock import unix_time_s
    from orchestrator.core.keys import SigningKey
    from orchestrator.trust.ceremony import current
    from orchestrator.trust.roles import check_sealing_key, load_roles

    key, approval = arguments.key, arguments.approval
    try:
        root = current(repository / "approvals", now_s=int(unix_time_s()))
        roles = load_roles(root.roles_data, where="roles")
    except MemtrialError as error:
        return [f"a trust root that holds ({error.reference}): {error.message}"]
    found = _unpushed(arguments, repository)
    try:
        if key is not None and key.is_file():
            check_sealing_key(roles, SigningKey.load(key).public.keyid)
    except MemtrialError as error:
        found.append(f"the ledger's key in {key} ({error.reference}): {error.message}")
    if approval is not None and approval in root.notes:
        found.append(
            f"an approval {approval} that holds: it was withdrawn; `memtrial approve status` says why"
        )
    elif approval is not None and f"approvals/{approval}.dsse.json" not in root.approvals:
        found.append(
            f"an approval {approval} in the trust root, where none of that name is published; `memtrial approve status` lists them"
        )
    return found


def _unpushed(arguments: argparse.Namespace, repository: Path) -> list[str]:
    """Says that the clone's head is not what its remote has: the supervisor's clone has what was pushed."""
    from orchestrator.pipeline.gating import head_of

    try:
        head_of(repository, arguments.system)
    except MemtrialError as error:
        return [f"a HEAD that others have ({error.reference}): {error.message}; {error.hint}"]
    except OSError:
        # Without the machine's configuration, which is in the list already, nobody knows the branch.
        return []
    return []

"""Makes a trust root in one pass, and the folder that a machine starts from."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.cli import render
from orchestrator.cli.trust_options import add_repository, approvals_of
from orchestrator.core.errors import UsageError

if TYPE_CHECKING:
    from orchestrator.core.keys import PublicKey, SigningKey
    from orchestrator.model.gate import GateConfig, RootSeen
    from orchestrator.model.roles import RoleName, RoleRule

PEOPLE = ("owner", "approver", "curator", "supervisor", "ledger")


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the word."""
    parser.add_argument("--name", required=True, metavar="NAME", help="of your organisation")
    for who in PEOPLE:
        parser.add_argument(
            f"--{who}",
            type=Path,
            action="append",
            default=[],
            metavar="FILE",
            help=f"key of {'an' if who[0] in 'ao' else 'a'} {who} (repeatable): public in PEM; private for two owners and one curator, who sign now",
        )
    parser.add_argument(
        "--named", required=True, metavar="OWNER/NAME", help="the repository's name"
    )
    parser.add_argument("--branch", default="main", metavar="B", help="its default branch")
    parser.add_argument("--supervisor-uid", type=int, required=True, metavar="UID", help="its user")
    parser.add_argument(
        "--supervisor-prefix", required=True, metavar="DIR", help="where it is installed"
    )
    parser.add_argument(
        "--supervisor-state",
        default="/var/lib/memtrial",
        metavar="DIR",
        help="new folder of the supervisor's user: nonce book, what was seen (default: /var/lib/memtrial)",
    )
    parser.add_argument(
        "--system",
        type=Path,
        required=True,
        metavar="DIR",
        help="new folder for this machine's starting point; /etc/memtrial for a real one",
    )
    kinds = parser.add_mutually_exclusive_group()
    for kind, text in (
        ("demonstration", "a root that can never approve anything"),
        ("rehearsal", "a root that approves runs before a fake provider on this machine alone"),
    ):
        kinds.add_argument(f"--{kind}", dest="kind", action="store_const", const=kind, help=text)
    parser.set_defaults(kind="organisation")
    add_repository(parser)


def run(arguments: argparse.Namespace) -> int:
    """Makes everything and prints the hash that others compare."""
    from orchestrator.core.clock import unix_time_s
    from orchestrator.trust.ceremony import init_root, load_public, provision, roles_of
    from orchestrator.trust.gate.before import BOOTSTRAP, CONFIG, SEEN

    keys = {who: tuple(load_public(path) for path in getattr(arguments, who)) for who in PEOPLE}
    signing, curators = private_of(arguments.owner), private_of(arguments.curator)
    if len(signing) < 2 or not curators:
        raise UsageError(
            "too-few-signers",
            f"expected private keys of two owners and a curator, found {len(signing)} and {len(curators)}",
            hint="give their private key files; the public ones of the others are enough",
        )
    roles = roles_of(arguments.name, _rules(keys), kind=arguments.kind)
    bootstrap = init_root(
        approvals_of(arguments),
        roles,
        owners=keys["owner"],
        signing=signing,
        curator=curators[0],
        now_s=int(unix_time_s()),
    )
    config, seen = _machine(arguments, bootstrap, keys["supervisor"][0])
    root_sha256 = config.root_sha256
    provision(arguments.system, {BOOTSTRAP: bootstrap, CONFIG: config.canonical()})
    provision(
        Path(config.supervisor_state), {SEEN: seen.canonical()}, owner_uid=config.supervisor_uid
    )
    if arguments.json:
        render.document({"root_sha256": root_sha256, "system": str(arguments.system)})
        return 0
    render.text(f"trust root of {arguments.name}, version 1; starting point in {arguments.system}")
    render.text(f"first root sha256 {root_sha256}")
    render.text("compare that hash with every owner, then commit and push approvals/")
    render.text("next: memtrial trust status")
    return 0


def _rules(keys: dict[str, tuple[PublicKey, ...]]) -> dict[RoleName, RoleRule]:
    from orchestrator.trust.ceremony import rule_of

    return {
        "approver": rule_of(2, _some("approver", keys["approver"], 2)),
        "curator": rule_of(1, _some("curator", keys["curator"], 1)),
        "supervisor": rule_of(1, _some("supervisor", keys["supervisor"], 1)),
        "ledger": rule_of(1, _some("ledger", keys["ledger"], 1)),
    }


def _machine(
    arguments: argparse.Namespace, bootstrap: bytes, supervisor: PublicKey
) -> tuple[GateConfig, RootSeen]:
    """Returns what this machine is told: whose root, which supervisor, and that nothing was seen yet."""
    from orchestrator.core.canonical import sha256_hex
    from orchestrator.model.gate import GateConfig, RootSeen

    config = GateConfig(
        name=arguments.name,
        repository=arguments.named,
        default_branch=arguments.branch,
        root_sha256=sha256_hex(bootstrap),
        supervisor_identity=f"{arguments.name}-supervisor",
        supervisor_uid=arguments.supervisor_uid,
        supervisor_keyid=supervisor.keyid,
        supervisor_prefix=arguments.supervisor_prefix,
        supervisor_state=arguments.supervisor_state,
        ledger_origin=f"{arguments.named}/approvals",
    )
    return config, RootSeen()


def private_of(paths: list[Path]) -> tuple[SigningKey, ...]:
    """Returns the private keys among key files.

    Raises:
        UsageError: others can read one.
    """
    from orchestrator.core.keys import SigningKey

    return tuple(
        SigningKey.load(path)
        for path in paths
        if path.is_file() and b"PRIVATE KEY" in path.read_bytes()
    )


def _some(who: str, keys: tuple[PublicKey, ...], least: int) -> tuple[PublicKey, ...]:
    if len(keys) < least:
        raise UsageError(
            "too-few-keys",
            f"expected at least {least} --{who}, found {len(keys)}",
            hint=f"add --{who} FILE",
        )
    return keys

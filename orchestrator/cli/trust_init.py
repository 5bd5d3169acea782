"""Makes a trust root in one pass, and the folder that a machine starts from."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.cli import render
from orchestrator.cli.arguments import fitting, whole
from orchestrator.cli.trust_options import add_repository, approvals_of, onward
from orchestrator.core.errors import UsageError

if TYPE_CHECKING:
    from orchestrator.core.keys import PublicKey, SigningKey
    from orchestrator.model.roles import RoleName, RoleRule
    from orchestrator.trust.ceremony import Place

LOWER = "lower-case letters, digits, dots, dashes and underscores"
ABSOLUTE = "an absolute path of plain characters"
PEOPLE = ("owner", "approver", "curator", "supervisor", "ledger")


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the word."""
    parser.add_argument(
        "--name",
        type=fitting(_organisation, f"{LOWER}, such as example"),
        required=True,
        metavar="NAME",
        help="of your organisation, in lower case",
    )
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
        "--named",
        type=fitting(_repository, f"OWNER/NAME, each {LOWER}, such as example/memtrial"),
        required=True,
        metavar="OWNER/NAME",
        help="the repository's name, in lower case",
    )
    parser.add_argument(
        "--branch",
        type=fitting(_branch, f"{LOWER}, such as main"),
        default="main",
        metavar="B",
        help="its default branch",
    )
    _add_machine(parser)
    kinds = parser.add_mutually_exclusive_group()
    for kind, text in (
        ("demonstration", "a root that can never approve anything"),
        ("rehearsal", "a root that approves runs before a fake provider on this machine alone"),
    ):
        kinds.add_argument(f"--{kind}", dest="kind", action="store_const", const=kind, help=text)
    parser.set_defaults(kind="organisation")
    add_repository(parser)


def _add_machine(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--supervisor-uid",
        type=whole(0, 2**32 - 2),
        required=True,
        metavar="UID",
        help="its user",
    )
    parser.add_argument(
        "--supervisor-prefix",
        type=fitting(_absolute, ABSOLUTE),
        required=True,
        metavar="DIR",
        help="where it is installed",
    )
    parser.add_argument(
        "--supervisor-state",
        type=fitting(_absolute, ABSOLUTE),
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


def run(arguments: argparse.Namespace) -> int:
    """Makes everything and prints the hash that others compare."""
    from orchestrator.core.canonical import sha256_hex
    from orchestrator.core.clock import unix_time_s
    from orchestrator.trust.ceremony import init_root, load_public, roles_of

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
        machine=lambda first: _machine(arguments, first, keys["supervisor"][0]),
    )
    root_sha256 = sha256_hex(bootstrap)
    if arguments.json:
        render.document({"root_sha256": root_sha256, "system": str(arguments.system)})
        return 0
    render.text(f"trust root of {arguments.name}, version 1; starting point in {arguments.system}")
    render.text(f"first root sha256 {root_sha256}")
    render.text("compare that hash with every owner, then commit and push approvals/")
    render.text(onward(arguments, "memtrial trust status"))
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
) -> tuple[Place, Place]:
    """Returns what this machine is told: whose root, which supervisor, and that nothing was seen yet."""
    from orchestrator.core.canonical import sha256_hex
    from orchestrator.model.gate import GateConfig, RootSeen
    from orchestrator.trust.ceremony import Place
    from orchestrator.trust.gate.before import BOOTSTRAP, CONFIG, SEEN

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
    state = Path(config.supervisor_state)
    return (
        Place(arguments.system, {BOOTSTRAP: bootstrap, CONFIG: config.canonical()}),
        Place(state, {SEEN: RootSeen().canonical()}, config.supervisor_uid),
    )


def _organisation() -> Any:
    from orchestrator.model.approval import OrganisationName

    return OrganisationName


def _repository() -> Any:
    from orchestrator.model.approval import RepositoryName

    return RepositoryName


def _branch() -> Any:
    from orchestrator.model.approval import Branch

    return Branch


def _absolute() -> Any:
    from orchestrator.model.gate import AbsolutePath

    return AbsolutePath


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

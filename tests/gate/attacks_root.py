"""Attacks on the trust root and its roles: steps 5 and 6."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from securesystemslib.signer import SSlibKey
from tuf.api.metadata import DelegatedRole, Delegations, TargetFile

from orchestrator.core.keys import PublicKey
from orchestrator.trust.gate.before import TUF_FOLDER
from orchestrator.trust.root.make import load, next_version, publish, rotate_owners
from orchestrator.trust.root.signing import tuf_key
from tests.gate.catalogue import Attack, after, before, in_turn
from tests.gate.world import OWNERS, Ingredients, World
from tests.unit.trust.hostile_git import commit
from tests.unit.trust.support import (
    APPROVERS,
    CURATORS,
    SUPERVISOR,
    aliases,
    entry,
    key,
    rule,
    small_order_encodings,
)

NEW = tuple(key(f"new owner {i}") for i in range(3))


def edit(name: str, change: Callable[[bytes], bytes]) -> Callable[[World], None]:
    """Changes a file of the trust root and commits it: whoever can push can do that."""

    def attack(world: World) -> None:
        path = world.repo / TUF_FOLDER / name
        path.write_bytes(change(path.read_bytes()))
        commit(world.repo, {})

    return attack


def remove(name: str) -> Callable[[World], None]:
    def attack(world: World) -> None:
        (world.repo / TUF_FOLDER / name).unlink()
        commit(world.repo, {})

    return attack


def remove_target(world: World) -> None:
    for path in (world.repo / TUF_FOLDER / "targets" / "approvals").iterdir():
        path.unlink()
    commit(world.repo, {})


def edit_target(world: World) -> None:
    (path,) = (world.repo / TUF_FOLDER / "targets" / "approvals").iterdir()
    path.write_bytes(path.read_bytes().replace(b"a", b"b", 1))
    commit(world.repo, {})


def published(
    *names: str, signers: Any = OWNERS[:2], change: Callable[[Any], object] = lambda made: None
) -> Callable[[World], None]:
    """Publishes one more version, in which something is wrong."""

    def attack(world: World) -> None:
        folder = world.repo / TUF_FOLDER
        made = load(folder)
        change(made)
        changed = next_version(made, *names, now_s=int(time.time()))
        publish(folder, made, owners=tuple(signers), curator=CURATORS[0], changed=changed)
        commit(world.repo, {})

    return attack


def republished_by_stranger(world: World) -> None:
    folder = world.repo / TUF_FOLDER
    made = load(folder)
    changed = next_version(made, "approvals", now_s=int(time.time()))
    publish(folder, made, owners=OWNERS[:2], curator=key("stranger"), changed=changed)
    commit(world.repo, {})


def rotated(signers: Any) -> Callable[[World], None]:
    def attack(world: World) -> None:
        folder = world.repo / TUF_FOLDER
        made = load(folder)
        rotate_owners(made, tuple(k.public for k in NEW), 2)
        changed = next_version(made, "root", "targets", now_s=int(time.time()))
        publish(folder, made, owners=NEW[:2], curator=CURATORS[0], changed=changed)
        publish(
            folder, made, owners=tuple(signers), curator=CURATORS[0], changed=frozenset({"root"})
        )
        commit(world.repo, {})

    return attack


def second_owner(make: Callable[[], SSlibKey]) -> Callable[[Any], None]:
    """One person's key twice: as itself and as something that verifies like it."""

    def change(made: Any) -> None:
        for role in ("root", "targets"):
            for keyid in list(made.root.roles[role].keyids):
                made.root.revoke_key(keyid, role)
            made.root.add_key(tuf_key(OWNERS[0].public), role)
            made.root.add_key(make(), role)

    return change


def weak(raw: bytes) -> Callable[[], SSlibKey]:
    return lambda: tuf_key(PublicKey(raw))


def other_name() -> SSlibKey:
    public = tuf_key(OWNERS[0].public)
    return SSlibKey("f" * 64, public.keytype, public.scheme, dict(public.keyval))


def delegated(change: Callable[[DelegatedRole], dict[str, DelegatedRole]]) -> Callable[[Any], None]:
    def attack(made: Any) -> None:
        delegations = made.targets.delegations
        made.targets.delegations = Delegations(
            delegations.keys, change(delegations.roles["approvals"])
        )

    return attack


def outside(made: Any) -> None:
    made.approvals.targets["roles.v1.json"] = TargetFile.from_data(
        "roles.v1.json", b"x", ["sha256"]
    )


def threshold(role: str, number: int) -> Callable[[Any], None]:
    return lambda made: setattr(made.root.roles[role], "threshold", number)


def seen(**versions: int) -> Callable[[Ingredients], None]:
    return lambda made: made.seen.update(versions)


def roles(**changes: Any) -> Callable[[Ingredients], None]:
    return lambda made: made.roles["roles"].update(changes)


def raw_roles(change: Callable[[bytes], bytes]) -> Callable[[Ingredients], None]:
    return lambda made: setattr(made, "roles_data", change)


def named(**changes: Any) -> Callable[[Ingredients], None]:
    return lambda made: made.roles.update(changes)


def frozen(world: World) -> None:
    world.changes["now_s"] = world.ingredients.now_s + 4 * 24 * 3600


def old_timestamp(world: World) -> None:
    """The first timestamp again, after the second was seen."""
    folder = world.repo / TUF_FOLDER
    earlier = json.loads((folder / "metadata" / "1.snapshot.json").read_bytes())
    assert earlier["signed"]["version"] == 1
    made = load(folder)
    for part in (made.snapshot, made.timestamp):
        part.version = 1
    made.approvals.version = 1
    publish(folder, made, owners=OWNERS[:2], curator=CURATORS[0], changed=frozenset({"approvals"}))
    (world.state / "root-seen.json").write_bytes(
        (world.state / "root-seen.json")
        .read_bytes()
        .replace(b'"timestamp_version":1', b'"timestamp_version":2')
    )
    commit(world.repo, {})


PEOPLE = "one person would count as two"
UNSIGNED = "anybody who can push can change it"
OWNERSHIP = "the owners of a root change only by enough old and enough new ones"

ATTACKS: tuple[Attack, ...] = (
    after(
        "metadata-edited",
        5,
        "trust-root-refused",
        UNSIGNED,
        edit("metadata/2.approvals.json", lambda d: d.replace(b'"length":', b'"length": ', 1)),
    ),
    after("target-edited", 5, "trust-root-refused", UNSIGNED, edit_target),
    after(
        "target-missing",
        5,
        "trust-root-incomplete",
        "the approval is not there to be checked",
        remove_target,
    ),
    after(
        "delegation-missing",
        5,
        "trust-root-incomplete",
        "nothing says which approvals hold",
        remove("metadata/2.approvals.json"),
    ),
    after(
        "snapshot-missing",
        5,
        "trust-root-incomplete",
        "versions could be mixed",
        remove("metadata/2.snapshot.json"),
    ),
    after(
        "timestamp-missing",
        5,
        "trust-root-incomplete",
        "nothing says what is latest",
        remove("metadata/timestamp.json"),
    ),
    after(
        "metadata-with-duplicate-key",
        5,
        "json-duplicate-key",
        "the client keeps the last of two",
        edit(
            "metadata/timestamp.json",
            lambda d: d.replace(b'"version":', b'"version": 99, "version":', 1),
        ),
    ),
    after(
        "metadata-not-json",
        5,
        "json-malformed",
        "it can be read as nothing",
        edit("metadata/timestamp.json", lambda d: d[:-20]),
    ),
    after(
        "mix-and-match",
        5,
        "version-not-of-name",
        "old metadata under a new name",
        edit("metadata/2.approvals.json", lambda d: d.replace(b'"version": 2', b'"version": 1')),
    ),
    after(
        "published-by-a-stranger",
        5,
        "trust-root-refused",
        "only a curator publishes",
        republished_by_stranger,
    ),
    after(
        "targets-by-one-owner",
        5,
        "trust-root-refused",
        "two owners publish roles",
        published("targets", signers=OWNERS[:1]),
    ),
    after(
        "targets-by-owner-and-curator",
        5,
        "trust-root-refused",
        "a curator is no owner",
        published("targets", signers=(OWNERS[0], CURATORS[0])),
    ),
    after("root-by-new-owners-only", 5, "trust-root-refused", OWNERSHIP, rotated(NEW[:2])),
    after("root-by-old-owners-only", 5, "trust-root-refused", OWNERSHIP, rotated(OWNERS[:2])),
    after(
        "root-by-one-old-owner", 5, "trust-root-refused", OWNERSHIP, rotated((OWNERS[0], *NEW[:2]))
    ),
    after(
        "owner-under-two-names",
        5,
        "keyid-not-of-key",
        PEOPLE,
        published("root", change=second_owner(other_name)),
    ),
    after(
        "owner-and-alias",
        5,
        "key-not-sound",
        PEOPLE,
        published("root", change=second_owner(lambda: tuf_key(aliases(OWNERS[0].public)[0]))),
    ),
    *(
        after(
            f"owner-small-order-{number:02d}",
            5,
            "key-not-sound",
            "one signature would fit every message",
            published("root", change=second_owner(weak(raw))),
        )
        for number, raw in enumerate(small_order_encodings())
    ),
    after(
        "root-threshold-one",
        5,
        "metadata-malformed",
        PEOPLE,
        published("root", change=threshold("root", 1)),
    ),
    after(
        "targets-threshold-one",
        5,
        "metadata-malformed",
        PEOPLE,
        published("root", change=threshold("targets", 1)),
    ),
    after(
        "second-delegation",
        5,
        "metadata-malformed",
        "one role name, one parent",
        published(
            "targets",
            change=delegated(
                lambda r: {
                    "approvals": r,
                    "more": DelegatedRole("more", [], 1, True, paths=["approvals/*"]),
                }
            ),
        ),
    ),
    after(
        "delegation-not-terminating",
        5,
        "metadata-malformed",
        "a later role could add approvals",
        published(
            "targets",
            change=delegated(
                lambda r: {
                    "approvals": DelegatedRole(
                        "approvals", r.keyids, 1, False, paths=["approvals/*"]
                    )
                }
            ),
        ),
    ),
    after(
        "delegation-of-everything",
        5,
        "metadata-malformed",
        "a curator could replace the roles",
        published(
            "targets",
            change=delegated(
                lambda r: {"approvals": DelegatedRole("approvals", r.keyids, 1, True, paths=["*"])}
            ),
        ),
    ),
    after(
        "target-outside-delegation",
        5,
        "target-outside-delegation",
        "a curator could replace the roles",
        published("approvals", change=outside),
    ),
    after("frozen", 5, "trust-root-expired", "a withdrawal may be in what is withheld", frozen),
    after(
        "rolled-back",
        5,
        "trust-root-rolled-back",
        "an older root may list what was withdrawn",
        old_timestamp,
    ),
    *(
        before(
            f"older-{name}-than-seen",
            5,
            "trust-root-rolled-back",
            "nothing older may come again",
            seen(**{f"{name}_version": 9}),
        )
        for name in ("root", "targets", "snapshot", "timestamp", "approvals")
    ),
    before(
        "clock-before-the-root-was-seen",
        5,
        "clock-set-back",
        "an expired approval would hold again",
        lambda made: made.seen.update(high_water_s=made.now_s + 3600),
    ),
    after(
        "root-withheld",
        5,
        "root-chain-broken",
        "the client would stay on the older one",
        in_turn(
            published("root"),
            published("root"),
            remove("metadata/2.root.json"),
        ),
    ),
    before(
        "roles-with-duplicate-key",
        6,
        "json-duplicate-key",
        "two readers would see two thresholds",
        raw_roles(lambda d: d.replace(b'"threshold":2', b'"threshold":2,"threshold":1')),
    ),
    before(
        "roles-not-canonical",
        6,
        "json-not-canonical",
        "one text, one meaning",
        raw_roles(lambda d: d + b" "),
    ),
    before(
        "roles-with-unknown-field",
        6,
        "roles-invalid",
        "a field that nobody checks",
        named(note="x"),
    ),
    before(
        "roles-of-a-demonstration",
        6,
        "root-of-another-kind",
        "its private keys are public",
        named(kind="demonstration"),
    ),
    before(
        "roles-of-another-organisation",
        6,
        "root-of-another-kind",
        "others' approvers are not ours",
        named(name="other"),
    ),
    before(
        "approver-threshold-one",
        6,
        "threshold-too-low",
        PEOPLE,
        roles(approver=rule(1, *APPROVERS)),
    ),
    before(
        "approver-twice",
        6,
        "key-in-two-places",
        PEOPLE,
        roles(approver=rule(2, APPROVERS[0], APPROVERS[0])),
    ),
    before(
        "approver-under-two-names",
        6,
        "keyid-not-of-key",
        PEOPLE,
        roles(approver=rule(2, APPROVERS[0], entry(APPROVERS[0].public, "f" * 64))),
    ),
    before(
        "approver-and-alias",
        6,
        "key-not-sound",
        PEOPLE,
        roles(approver=rule(2, APPROVERS[0], entry(aliases(APPROVERS[0].public)[3]))),
    ),
    *(
        before(
            f"approver-small-order-{number:02d}",
            6,
            "key-not-sound",
            "one signature would fit every message",
            roles(approver=rule(2, APPROVERS[0], APPROVERS[1], entry(PublicKey(raw)))),
        )
        for number, raw in enumerate(small_order_encodings())
    ),
    before(
        "supervisor-is-approver",
        6,
        "key-in-two-places",
        "the supervisor would approve itself",
        roles(supervisor=rule(1, APPROVERS[2])),
    ),
    before(
        "ledger-is-supervisor",
        6,
        "key-in-two-places",
        "a role vouches for another",
        roles(ledger=rule(1, SUPERVISOR)),
    ),
    before(
        "curator-is-approver",
        6,
        "key-in-two-places",
        "who publishes must not approve",
        roles(curator=rule(1, APPROVERS[0], CURATORS[1])),
    ),
    before(
        "curators-other-than-the-roots",
        6,
        "curators-differ",
        "the root says who curates",
        roles(curator=rule(1, key("other curator"))),
    ),
    before(
        "owner-is-approver",
        6,
        "key-in-two-places",
        "who owns the root must not approve",
        roles(approver=rule(2, *APPROVERS[:2], OWNERS[0])),
    ),
    before(
        "owner-keeps-ledger",
        6,
        "key-in-two-places",
        "a role vouches for another",
        roles(ledger=rule(1, OWNERS[1])),
    ),
    before(
        "role-missing",
        6,
        "roles-invalid",
        "nobody would sign the checkpoints",
        lambda made: made.roles["roles"].pop("ledger"),
    ),
    before(
        "no-supervisor",
        6,
        "roles-invalid",
        "nobody would answer",
        lambda made: made.roles["roles"].pop("supervisor"),
    ),
)

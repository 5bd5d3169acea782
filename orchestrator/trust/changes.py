"""What people change about a trust root that is there: publish, withdraw, renew, other owners, other roles.

Reads and writes `approvals/` of a repository. Whose key may do what is said before anything is made.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from orchestrator.core.canonical import sha256_hex
from orchestrator.core.errors import ApprovalRefused
from orchestrator.core.keys import PublicKey, SigningKey
from orchestrator.model.approval import APPROVAL_TYPE, WITHDRAWAL_TYPE, Withdrawal
from orchestrator.model.roles import RoleName
from orchestrator.trust.ceremony import TUF, change_root, current, rule_of
from orchestrator.trust.envelope import open_signed, sign_new
from orchestrator.trust.gate.asked import Governed
from orchestrator.trust.proposals import (
    check_not_withdrawn,
    check_root_named,
    read_signed_so_far,
    signed_by,
    write_signed,
)
from orchestrator.trust.roles import load_roles, role_of
from orchestrator.trust.root.client import TrustRoot
from orchestrator.trust.root.make import (
    APPROVALS,
    LEAST_OWNERS,
    NOTE,
    ROLES_TARGET,
    change_curators,
    drop_target,
    load,
    next_version,
    put_target,
    root_is_due,
    rotate_owners,
)


def publish_approval(
    approvals: Path,
    approval: Governed,
    curator: SigningKey,
    *,
    now_s: int,
    approver: SigningKey | None = None,
) -> TrustRoot:
    """Lists a signed approval in the trust root, which is made to hold until the approval's end.

    Args:
        approvals: the folder of approvals.
        approval: the proposal.
        curator: who publishes.
        now_s: the present time in seconds since 1970.
        approver: who signs it too; the signature is kept once it is published, and not otherwise.

    Raises:
        ApprovalRefused: it was withdrawn, proposed under another root, no curator's key, too few signatures,
            or signatures under another proposal; nothing is listed then.
    """
    root = current(approvals, now_s=now_s)
    check_not_withdrawn(root, approval.approval_id)
    check_root_named(root, approval)
    check_curator(root.curators, curator.public)
    roles = load_roles(root.roles_data, where="roles")
    role = role_of(roles, "approver", where="roles")
    name = f"{approval.approval_id}.dsse.json"
    started = read_signed_so_far(approvals, approval, role)
    data = started[0] if started else None
    if approver is not None:
        data = signed_by(approvals, approval, approver, roles)
    if data is None:
        raise ApprovalRefused(
            "threshold-not-met",
            f"{name}: expected signatures by {role.threshold} of the role {role.name}, found 0",
            hint="have it signed: `memtrial approve sign`",
        )
    open_signed(data, role, payload_type=APPROVAL_TYPE, where=name)
    made = load(approvals / TUF)
    put_target(made, f"{APPROVALS}/{name}", data)
    changed = next_version(made, APPROVALS, now_s=now_s, until_s=approval.window.expires_s)
    after = change_root(approvals, made, curator=curator, changed=changed, now_s=now_s)
    write_signed(approvals, approval, data)
    return after


def withdraw_approval(
    approvals: Path, approval_id: str, curator: SigningKey, *, reason: str, now_s: int
) -> TrustRoot:
    """Puts a signed note of why in the place of an approval, in the trust root: it never holds again.

    Raises:
        UsageError: it is not listed.
        ApprovalRefused: no curator's key, or it was withdrawn before.
        ValueError: the reason is no line of printable text.
    """
    root = current(approvals, now_s=now_s)
    check_not_withdrawn(root, approval_id)
    check_curator(root.curators, curator.public)
    name = f"{APPROVALS}/{approval_id}.dsse.json"
    made = load(approvals / TUF)
    drop_target(made, name)
    note = Withdrawal(
        approval_id=approval_id,
        approval_sha256=sha256_hex(root.approvals[name]),
        reason=reason,
        withdrawn_s=now_s,
    )
    envelope = sign_new(note.canonical(), (curator,), payload_type=WITHDRAWAL_TYPE)
    put_target(made, f"{APPROVALS}/{approval_id}{NOTE}", envelope)
    changed = next_version(made, APPROVALS, now_s=now_s)
    return change_root(approvals, made, curator=curator, changed=changed, now_s=now_s)


def refresh_root(
    approvals: Path,
    *,
    curator: SigningKey,
    owners: tuple[SigningKey, ...] = (),
    now_s: int,
) -> TrustRoot:
    """Lets a trust root hold on, also one that has expired; what it says stays as it is.

    Args:
        approvals: the folder of approvals.
        curator: renews the list of approvals, snapshot and timestamp.
        owners: two, to renew targets too, and the root where it ends soon: it gets another version then, and
            approvals of the earlier one are over.
        now_s: the present time in seconds since 1970.

    Raises:
        ApprovalRefused: no curator's or owner's key, or more is wrong with it than its age.
    """
    root = current(approvals, now_s=now_s, lapsed=True)
    check_curator(root.curators, curator.public)
    made = load(approvals / TUF)
    names = [APPROVALS]
    if owners:
        check_owners(root.owners, owners)
        names += ["root", "targets"] if root_is_due(made, now_s=now_s) else ["targets"]
    changed = next_version(made, *names, now_s=now_s)
    return change_root(
        approvals, made, owners=owners, curator=curator, changed=changed, now_s=now_s
    )


def rotate_root(
    approvals: Path,
    *,
    owners: tuple[PublicKey, ...],
    old: tuple[SigningKey, ...],
    new: tuple[SigningKey, ...],
    curator: SigningKey,
    now_s: int,
) -> int:
    """Replaces the owners. Returns the new version.

    Args:
        approvals: the folder of approvals.
        owners: all owners that there are to be.
        old: two of the present owners, who sign.
        new: two of `owners`, who sign; a person who stays may be among both.
        curator: signs snapshot and timestamp.
        now_s: the present time in seconds since 1970.

    Raises:
        UsageError: too few owners, or one of them twice.
        ApprovalRefused: a key that is not of its role, too few of them, or what was made does not verify;
            nothing was written then.
    """
    root = current(approvals, now_s=now_s, lapsed=True)
    check_curator(root.curators, curator.public)
    check_owners(frozenset(key.raw for key in owners), new, who="new owners")
    check_owners(root.owners, old, who="old owners")
    made = load(approvals / TUF)
    rotate_owners(made, owners, LEAST_OWNERS)
    changed = next_version(made, APPROVALS, "root", "targets", now_s=now_s)
    after = change_root(
        approvals, made, owners=(*old, *new), curator=curator, changed=changed, now_s=now_s
    )
    return after.root_version


def change_roles(
    approvals: Path,
    keys: Mapping[RoleName, tuple[PublicKey, ...]],
    *,
    owners: tuple[SigningKey, ...],
    curator: SigningKey,
    now_s: int,
) -> TrustRoot:
    """Gives roles other keys. The root gets another version where the curators change, and only there.

    Args:
        approvals: the folder of approvals.
        keys: by role, all keys that it is to have; roles that are not named keep theirs.
        owners: two, who sign.
        curator: one who is a curator afterwards, and signs snapshot and timestamp.
        now_s: the present time in seconds since 1970.

    Raises:
        UsageError: fewer keys than must sign, or too many.
        ApprovalRefused: a key that is not of its role, too few owners, a key in two places; nothing was
            written then.
    """
    root = current(approvals, now_s=now_s, lapsed=True)
    check_owners(root.owners, owners)
    before = load_roles(root.roles_data, where="roles").document
    rules = {name: rule_of(before.roles[name].threshold, new) for name, new in keys.items()}
    after = before.model_copy(update={"roles": {**before.roles, **rules}})
    made = load(approvals / TUF)
    names = [APPROVALS, "targets"]
    curators = keys.get("curator")
    if curators is not None:
        change_curators(made, curators)
        names.append("root")
    check_curator(
        root.curators if curators is None else frozenset(c.raw for c in curators), curator.public
    )
    put_target(made, ROLES_TARGET, after.canonical())
    changed = next_version(made, *names, now_s=now_s)
    return change_root(
        approvals, made, owners=owners, curator=curator, changed=changed, now_s=now_s
    )


def check_curator(curators: frozenset[bytes], key: PublicKey) -> None:
    """Refuses a key that is no curator's, before anything is made with it.

    Raises:
        ApprovalRefused: it is none.
    """
    if key.raw not in curators:
        raise ApprovalRefused(
            "signer-not-in-role",
            f"expected the key of a curator, found {key.keyid[:16]}",
            hint="sign with a key that `memtrial trust status` lists as a curator's",
        )


def check_owners(
    owners: frozenset[bytes], keys: tuple[SigningKey, ...], *, who: str = "owners"
) -> None:
    """Refuses to begin what owners must sign without two of them, or with a key that is no owner's.

    Args:
        owners: raw public keys of those who may sign.
        keys: who is to sign.
        who: what they are called in the error text.

    Raises:
        ApprovalRefused: as said.
    """
    for key in keys:
        if key.public.raw not in owners:
            raise ApprovalRefused(
                "signer-not-in-role",
                f"expected keys of {who}, found {key.public.keyid[:16]}, which is none",
                hint="see `memtrial trust status` for the present owners",
            )
    found = len({key.public.raw for key in keys})
    if found < LEAST_OWNERS:
        raise ApprovalRefused(
            "threshold-not-met",
            f"expected private keys of {LEAST_OWNERS} different {who}, found {found}",
            hint="two of them sign in one place: name both files",
        )

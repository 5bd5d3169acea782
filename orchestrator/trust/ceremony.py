"""What people do with a trust root: make it, change its owners, propose, sign, publish, withdraw, look.

Reads and writes `approvals/` of a repository and, once, the first root of a machine. Holds no key longer than
one call. Proposals lie in `approvals/proposals`, signed ones in `approvals/signed`, published ones in the root.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from orchestrator.core.canonical import sha256_hex
from orchestrator.core.errors import ApprovalRefused, UsageError
from orchestrator.core.files import write_atomic
from orchestrator.core.keys import PublicKey, SigningKey
from orchestrator.core.pae import to_base64
from orchestrator.model.approval import APPROVAL_TYPE, WITHDRAWAL_TYPE, Withdrawal
from orchestrator.model.roles import RoleKey, RoleName, RoleRule, Roles
from orchestrator.trust.envelope import open_signed, sign_new
from orchestrator.trust.gate.asked import Governed
from orchestrator.trust.roles import check_people, load_roles, role_of
from orchestrator.trust.root.client import RootState, TrustRoot, read_root
from orchestrator.trust.root.make import (
    APPROVALS,
    Draft,
    People,
    draft,
    drop_target,
    load,
    next_version,
    publish,
    put_target,
    rotate_owners,
)

TUF = "tuf"
SIGNED = "signed"
WITHDRAWN = "withdrawn"
ALL = frozenset({"root", "targets", "approvals"})
MAX_FILE_BYTES = 1024 * 1024


def load_public(path: Path) -> PublicKey:
    """Reads a public key, or the public half of a private one.

    Raises:
        UsageError: there is no such file, or others can read the private key in it.
        DocumentError: it holds no Ed25519 key.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(
            "key-file-missing",
            f"{path}: expected a key file, found {error.strerror}",
            hint="make one: `(umask 077; openssl genpkey -algorithm ed25519 -out key.pem)`",
        ) from error
    if b"PRIVATE KEY" in data:
        return SigningKey.load(path).public
    return PublicKey.parse_pem(data, where=path.name)


def init_root(
    approvals: Path,
    roles: Roles,
    *,
    owners: tuple[PublicKey, ...],
    signing: tuple[SigningKey, ...],
    curator: SigningKey,
    now_s: int,
) -> bytes:
    """Makes a trust root in one pass and returns its first root, which machines are provisioned with.

    Raises:
        UsageError: there is one already, or too few owners.
        ApprovalRefused: the roles are unsound, or what was made does not verify.
    """
    folder = approvals / TUF
    if (folder / "metadata").exists():
        raise UsageError(
            "trust-root-there",
            f"expected no trust root in {folder}, found one",
            hint="change it with `memtrial trust rotate`, or choose another folder",
        )
    data = roles.canonical()
    loaded = load_roles(data, where="roles")
    curators = tuple(role_of(loaded, "curator", where="roles").keys.values())
    made = draft(People(owners, curators), data, now_s=now_s)
    before = files_below(folder)
    publish(folder, made, owners=signing, curator=curator, changed=ALL)
    try:
        current(approvals, now_s=now_s)
    except ApprovalRefused:
        restore(folder, before)
        (folder / "metadata").rmdir()
        raise
    return (folder / "metadata" / "1.root.json").read_bytes()


def rule_of(threshold: int, keys: tuple[PublicKey, ...]) -> RoleRule:
    """Returns the rule of a role."""
    return RoleRule(
        threshold=threshold,
        keys=tuple(RoleKey(keyid=k.keyid, public_key=to_base64(k.raw)) for k in keys),
    )


def roles_of(
    name: str,
    rules: Mapping[RoleName, RoleRule],
    *,
    kind: Literal["demonstration", "organisation", "rehearsal"],
) -> Roles:
    """Returns the roles document of a trust root."""
    return Roles(name=name, kind=kind, roles=dict(rules))


def rotate_root(
    approvals: Path,
    *,
    owners: tuple[PublicKey, ...],
    signing: tuple[SigningKey, ...],
    curator: SigningKey,
    now_s: int,
) -> int:
    """Replaces the owners; needs two old and two new ones. Returns the new version.

    Raises:
        ApprovalRefused: what was made does not verify; nothing was written then.
    """
    folder = approvals / TUF
    made = load(folder)
    rotate_owners(made, owners, 2)
    new = {key.keyid for key in owners}
    changed = next_version(made, "root", "targets", now_s=now_s)
    before = files_below(folder)
    publish(
        folder,
        made,
        owners=tuple(k for k in signing if k.public.keyid in new),
        curator=curator,
        changed=changed,
    )
    publish(folder, made, owners=signing, curator=curator, changed=frozenset({"root"}))
    try:
        current(approvals, now_s=now_s)
    except ApprovalRefused:
        restore(folder, before)
        raise
    return int(made.root.version)


def restore(folder: Path, files: Mapping[str, bytes]) -> None:
    """Puts a folder back to what it was."""
    for name in files_below(folder).keys() - files.keys():
        (folder / name).unlink()
    for name, data in files.items():
        write_atomic(folder / name, data)


def current(approvals: Path, *, now_s: int) -> TrustRoot:
    """Reads and verifies the trust root of a work tree, starting from its own first root.

    Good for looking and for ceremonies; the gate starts from the machine's own first root instead.
    """
    files = files_below(approvals / TUF)
    bootstrap = files.get("metadata/1.root.json")
    if bootstrap is None:
        raise UsageError(
            "no-trust-root",
            f"expected a trust root in {approvals / TUF}, found none",
            hint="make one with `memtrial trust init`",
        )
    root = read_root(files, bootstrap=bootstrap, seen=RootState(), now_s=now_s)
    roles = load_roles(root.roles_data, where="roles")
    check_people(roles, owners=root.owners, curators=root.curators)
    return root


def files_below(folder: Path) -> dict[str, bytes]:
    """Returns the regular files below a folder by path; links are left out."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


def publish_approval(
    approvals: Path, approval: Governed, curator: SigningKey, *, now_s: int
) -> TrustRoot:
    """Lists a signed approval in the trust root, which is made to hold until the approval's end.

    Raises:
        ApprovalRefused: too few signatures, or what was made does not verify; nothing is listed then.
    """
    folder = approvals / TUF
    root = current(approvals, now_s=now_s)
    role = role_of(load_roles(root.roles_data, where="roles"), "approver", where="roles")
    path = approvals / SIGNED / f"{approval.approval_id}.dsse.json"
    envelope = path.read_bytes() if path.is_file() else b""
    found = open_signed(envelope, role, payload_type=APPROVAL_TYPE, where=path.name)
    if found.payload != approval.canonical():
        raise ApprovalRefused(
            "proposal-not-the-signed-one",
            f"{path.name}: expected the proposal that is published, found another that was signed",
            hint="compare both; somebody changed the proposal after it was signed",
        )
    made = load(folder)
    put_target(made, f"{APPROVALS}/{approval.approval_id}.dsse.json", envelope)
    return _published(approvals, made, curator, now_s, until_s=approval.window.expires_s)


def withdraw_approval(
    approvals: Path, approval_id: str, curator: SigningKey, *, reason: str, now_s: int
) -> TrustRoot:
    """Takes an approval out of the trust root and leaves a signed note of why.

    Raises:
        UsageError: it is not listed.
        ApprovalRefused: what was made does not verify.
    """
    root = current(approvals, now_s=now_s)
    name = f"{APPROVALS}/{approval_id}.dsse.json"
    made = load(approvals / TUF)
    drop_target(made, name)
    after = _published(approvals, made, curator, now_s, until_s=None)
    note = Withdrawal(
        approval_id=approval_id,
        approval_sha256=sha256_hex(root.approvals[name]),
        reason=reason,
        withdrawn_s=now_s,
    )
    envelope = sign_new(note.canonical(), (curator,), payload_type=WITHDRAWAL_TYPE)
    write_atomic(approvals / WITHDRAWN / f"{approval_id}.dsse.json", envelope)
    return after


def _published(
    approvals: Path, made: Draft, curator: SigningKey, now_s: int, *, until_s: int | None
) -> TrustRoot:
    folder = approvals / TUF
    before = files_below(folder)
    changed = next_version(made, APPROVALS, now_s=now_s, until_s=until_s)
    publish(folder, made, owners=(), curator=curator, changed=changed)
    try:
        return current(approvals, now_s=now_s)
    except ApprovalRefused:
        restore(folder, before)
        raise


def provision(folder: Path, files: Mapping[str, bytes], *, owner_uid: int | None = None) -> None:
    """Writes what a machine starts from into a new folder, which root gives to a user of its own.

    Args:
        folder: the system folder, which others may read; or with an owner, that user's alone.
        files: bytes by name.
        owner_uid: whose the folder becomes.

    Raises:
        UsageError: something is there already.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        path = folder / name
        if path.exists():
            raise UsageError(
                "system-folder-not-new",
                f"expected no {name} in {folder}, found one",
                hint="a machine's first root is replaced by root's own hand, never by a command",
            )
        write_atomic(path, data, mode=0o644 if owner_uid is None else 0o600)
        if owner_uid is not None and os.geteuid() == 0:
            os.chown(path, owner_uid, -1)
    folder.chmod(0o755 if owner_uid is None else 0o700)
    if owner_uid is not None and os.geteuid() == 0:
        os.chown(folder, owner_uid, -1)

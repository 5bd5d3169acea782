"""Makes and signs a trust root: TUF metadata and targets in one folder, each version beside the earlier ones.

Owners sign root and targets (two of them at least), a curator signs snapshot, timestamp and the delegated
role `approvals`. Writes below one folder; reads the latest version of each role from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from tuf.api.metadata import (
    DelegatedRole,
    Delegations,
    Metadata,
    MetaFile,
    Root,
    Signed,
    Snapshot,
    TargetFile,
    Targets,
    Timestamp,
)
from tuf.api.serialization.json import JSONSerializer

from orchestrator.core.errors import UsageError
from orchestrator.core.files import safe_relative, write_atomic
from orchestrator.core.keys import PublicKey, SigningKey
from orchestrator.trust.root.signing import TufSigner, tuf_key

S = TypeVar("S", Root, Targets, Snapshot, Timestamp)
DAY_S = 24 * 3600
ROOT_LIFE_S = 365 * DAY_S
TARGETS_LIFE_S = 90 * DAY_S
APPROVALS_LIFE_S = 14 * DAY_S
SNAPSHOT_LIFE_S = 7 * DAY_S
TIMESTAMP_LIFE_S = 3 * DAY_S
LEAST_OWNERS = 2
ROLES_TARGET = "roles.v1.json"
APPROVALS = "approvals"
APPROVAL_PATHS = "approvals/*"
# No approval's file ends so, whatever its name is.
NOTE = ".withdrawal.json"
TIMESTAMP = "timestamp.json"


@dataclass(slots=True)
class Draft:
    """All roles of a root in memory, each at its present version, with the bytes of its targets."""

    root: Root
    targets: Targets
    approvals: Targets
    snapshot: Snapshot
    timestamp: Timestamp
    files: dict[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class People:
    """Whose keys a new root has."""

    owners: tuple[PublicKey, ...]
    curators: tuple[PublicKey, ...]
    owner_threshold: int = LEAST_OWNERS


def draft(people: People, roles_data: bytes, *, now_s: int) -> Draft:
    """Drafts version 1 of everything.

    Raises:
        UsageError: too few owners, or one of them twice.
    """
    check_owner_keys(people.owners, people.owner_threshold)
    root = Root(expires=_later(now_s, ROOT_LIFE_S), consistent_snapshot=True)
    for owner in people.owners:
        for role in ("root", "targets"):
            root.add_key(tuf_key(owner), role)
    for curator in people.curators:
        for role in ("snapshot", "timestamp"):
            root.add_key(tuf_key(curator), role)
    root.roles["root"].threshold = root.roles["targets"].threshold = people.owner_threshold
    delegated = DelegatedRole(APPROVALS, [], 1, terminating=True, paths=[APPROVAL_PATHS])
    targets = Targets(
        expires=_later(now_s, TARGETS_LIFE_S), delegations=Delegations({}, {APPROVALS: delegated})
    )
    for curator in people.curators:
        targets.add_key(tuf_key(curator), APPROVALS)
    made = Draft(
        root,
        targets,
        Targets(expires=_later(now_s, APPROVALS_LIFE_S)),
        Snapshot(expires=_later(now_s, SNAPSHOT_LIFE_S)),
        Timestamp(expires=_later(now_s, TIMESTAMP_LIFE_S)),
    )
    put_target(made, ROLES_TARGET, roles_data)
    return made


def check_owner_keys(owners: tuple[PublicKey, ...], threshold: int) -> None:
    """Refuses owners of whom not enough different ones could sign.

    Raises:
        UsageError: too few, or one of them twice.
    """
    if len(set(owners)) != len(owners):
        raise UsageError(
            "owner-twice",
            "expected different owners, found one key twice",
            hint="name each owner once",
        )
    if not LEAST_OWNERS <= threshold <= len(owners):
        raise UsageError(
            "too-few-owners",
            f"expected at least {LEAST_OWNERS} owners to sign of at least as many, found {threshold} of {len(owners)}",
            hint="name more keys with --owner",
        )


def put_target(made: Draft, path: str, data: bytes) -> None:
    """Puts a target into the role that may list it; publish afterwards."""
    role = made.approvals if path.startswith("approvals/") else made.targets
    role.targets[path] = TargetFile.from_data(path, data, ["sha256"])
    made.files[path] = data


def drop_target(made: Draft, path: str) -> None:
    """Takes a target out; publish afterwards.

    Raises:
        UsageError: it is not listed.
    """
    role = made.approvals if path.startswith("approvals/") else made.targets
    if role.targets.pop(path, None) is None:
        raise UsageError(
            "target-unknown",
            f"expected {path} in the trust root, found none",
            hint="run `memtrial trust status`",
        )


def publish(
    folder: Path,
    made: Draft,
    *,
    owners: tuple[SigningKey, ...],
    curator: SigningKey,
    changed: frozenset[str],
) -> None:
    """Signs the changed roles and those above them, and writes them with the targets' bytes.

    Args:
        folder: of the trust root.
        made: what to publish; versions are as they are to be.
        owners: who sign root and targets where these changed.
        curator: who signs the rest.
        changed: names among root, targets, approvals; snapshot and timestamp always are.
    """
    earlier = {f"metadata/{path.name}": path.read_bytes() for path in folder.glob("metadata/*")}
    made_of = signed_files(earlier, made, owners=owners, curator=curator, changed=changed)
    for name, data in made_of.items():
        write_atomic(folder / name, data)


def signed_files(
    earlier: Mapping[str, bytes],
    made: Draft,
    *,
    owners: tuple[SigningKey, ...],
    curator: SigningKey,
    changed: frozenset[str],
) -> dict[str, bytes]:
    """Returns what `publish` writes, by path below the folder; the timestamp, which makes it hold, is last.

    Args:
        earlier: metadata that is there, by path, for the roles that did not change.
        made: what to publish.
        owners: who sign root and targets; those who own these no more sign the root alone.
        curator: who signs the rest.
        changed: names among root, targets, approvals.
    """
    files = {}
    if "root" in changed:
        files[f"metadata/{made.root.version}.root.json"] = _signed_bytes(made.root, owners)
    remaining = made.root.roles["targets"].keyids
    present = tuple(key for key in owners if key.public.keyid in remaining)
    for name, role, keys in (
        ("targets", made.targets, present),
        (APPROVALS, made.approvals, (curator,)),
    ):
        path = f"metadata/{role.version}.{name}.json"
        if name in changed:
            files[path] = _signed_bytes(role, keys)
        data = files[path] if name in changed else earlier[path]
        made.snapshot.meta[f"{name}.json"] = MetaFile.from_data(role.version, data, ["sha256"])
    snapshot = _signed_bytes(made.snapshot, (curator,))
    files[f"metadata/{made.snapshot.version}.snapshot.json"] = snapshot
    made.timestamp.snapshot_meta = MetaFile.from_data(made.snapshot.version, snapshot, ["sha256"])
    for path, content in made.files.items():
        files[f"targets/{target_name(path, content)}"] = content
    files[f"metadata/{TIMESTAMP}"] = _signed_bytes(made.timestamp, (curator,))
    return files


def target_name(path: str, data: bytes) -> str:
    """Returns the file name of a target under consistent snapshots: its digest before its name."""
    plain = safe_relative(path, where="target")
    sha256 = TargetFile.from_data(path, data, ["sha256"]).hashes["sha256"]
    return str(plain.parent / f"{sha256}.{plain.name}")


def load(folder: Path) -> Draft:
    """Reads the latest version of every role, unverified, to make the next one of it.

    Raises:
        UsageError: there is no trust root in the folder.
    """
    metadata = folder / "metadata"
    numbers = [int(p.name.split(".", 1)[0]) for p in metadata.glob("[0-9]*.root.json")]
    if not numbers:
        raise UsageError(
            "no-trust-root",
            f"expected a trust root in {folder}, found none",
            hint="make one with `memtrial trust init`",
        )
    timestamp = _signed(metadata / TIMESTAMP, Timestamp)
    snapshot = _signed(metadata / f"{timestamp.snapshot_meta.version}.snapshot.json", Snapshot)
    versions = {name: meta.version for name, meta in snapshot.meta.items()}
    return Draft(
        _signed(metadata / f"{max(numbers)}.root.json", Root),
        _signed(metadata / f"{versions['targets.json']}.targets.json", Targets),
        _signed(metadata / f"{versions['approvals.json']}.approvals.json", Targets),
        snapshot,
        timestamp,
    )


def next_version(
    made: Draft, *names: str, now_s: int, until_s: int | None = None
) -> frozenset[str]:
    """Raises the versions of roles that changed, and their times; returns their names for `publish`.

    Args:
        made: the draft.
        names: among root, targets, approvals.
        now_s: the present time, in seconds since 1970.
        until_s: how long snapshot and timestamp are to hold; by default their usual life. What holds longer
            already is not shortened: other approvals rest on it.
    """
    lives = {"root": ROOT_LIFE_S, "targets": TARGETS_LIFE_S, APPROVALS: APPROVALS_LIFE_S}
    parts: Mapping[str, Signed] = {
        "root": made.root,
        "targets": made.targets,
        APPROVALS: made.approvals,
    }
    for name in names:
        parts[name].version += 1
        parts[name].expires = _later(now_s, lives[name])
    for part, life_s in ((made.snapshot, SNAPSHOT_LIFE_S), (made.timestamp, TIMESTAMP_LIFE_S)):
        part.version += 1
        part.expires = max(part.expires, _later(now_s, life_s), _later(until_s or 0, 0))
    if until_s is not None:
        made.approvals.expires = max(made.approvals.expires, _later(until_s, 0))
    return frozenset(names)


def root_is_due(made: Draft, *, now_s: int) -> bool:
    """Returns whether the root ends before targets that were signed now would."""
    return bool(made.root.expires < _later(now_s, TARGETS_LIFE_S))


def rotate_owners(made: Draft, owners: tuple[PublicKey, ...], threshold: int) -> None:
    """Replaces the owners of root and targets; publish with old and new owners' signatures.

    Raises:
        UsageError: too few owners, or one of them twice.
    """
    check_owner_keys(owners, threshold)
    for role in ("root", "targets"):
        _replace(made.root, role, owners)
        made.root.roles[role].threshold = threshold


def change_curators(made: Draft, curators: tuple[PublicKey, ...]) -> None:
    """Replaces the curators in root and delegation; the roles target names them too and is put by the caller."""
    for role in ("snapshot", "timestamp"):
        _replace(made.root, role, curators)
    _replace(made.targets, APPROVALS, curators)


def _replace(holder: Root | Targets, name: str, keys: tuple[PublicKey, ...]) -> None:
    for keyid in list(holder.get_delegated_role(name).keyids):
        holder.revoke_key(keyid, name)
    for key in keys:
        holder.add_key(tuf_key(key), name)


def _signed(path: Path, kind: type[S]) -> S:
    signed = Metadata.from_file(str(path)).signed
    if not isinstance(signed, kind):
        raise UsageError(
            "metadata-of-another-role",
            f"{path.name}: expected {kind.__name__}, found another role",
            hint="restore the trust root from git: `git restore approvals/tuf && git clean -fd approvals/tuf`",
        )
    return signed


def _signed_bytes(signed: S, keys: tuple[SigningKey, ...]) -> bytes:
    metadata = Metadata(signed)
    for key in keys:
        metadata.sign(TufSigner(key), append=True)
    return metadata.to_bytes(JSONSerializer(compact=False))


def _later(now_s: int, life_s: int) -> datetime:
    return datetime.fromtimestamp(now_s + life_s, tz=UTC)

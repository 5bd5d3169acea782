"""Makes a trust root, reads it, and writes each change of it whole or not at all.

Reads and writes `approvals/` of a repository and, once, the first root of a machine. Holds no key longer than
one call. Proposals lie in `approvals/proposals`, signed ones in `approvals/signed`, published ones in the root;
what people change about a root is in `trust/changes.py`.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from orchestrator.core.errors import ApprovalRefused, UsageError
from orchestrator.core.files import make_folders, sync_folder, write_atomic
from orchestrator.core.keys import PublicKey, SigningKey
from orchestrator.core.pae import to_base64
from orchestrator.model.roles import MAX_KEYS_PER_ROLE, RoleKey, RoleName, RoleRule, Roles
from orchestrator.trust.roles import check_people, load_roles, role_of
from orchestrator.trust.root.client import RootState, TrustRoot, read_root
from orchestrator.trust.root.make import TIMESTAMP, Draft, People, draft, signed_files

TUF = "tuf"
# Where a new root is made, and where the old one lies for the moment of the change; git sees nothing of it.
STAGE = ".ceremony"
BEFORE = "before"
SIGNED = "signed"
FIRST = "metadata/1.root.json"
ALL = frozenset({"root", "targets", "approvals"})


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
            hint="check the path; a public key is written by its owner: `openssl pkey -in key.pem -pubout -out key.pub.pem`",
        ) from error
    if b"PRIVATE KEY" in data:
        return SigningKey.load(path).public
    return PublicKey.parse_pem(data, where=path.name)


@dataclass(frozen=True, slots=True)
class Place:
    """What a machine starts from: files by name in a folder that others may read, or that is one user's alone."""

    folder: Path
    files: Mapping[str, bytes]
    owner_uid: int | None = None


def _no_machine(_: bytes) -> tuple[Place, ...]:
    return ()


def init_root(
    approvals: Path,
    roles: Roles,
    *,
    owners: tuple[PublicKey, ...],
    signing: tuple[SigningKey, ...],
    curator: SigningKey,
    now_s: int,
    machine: Callable[[bytes], tuple[Place, ...]] = _no_machine,
) -> bytes:
    """Makes a trust root in one pass and returns its first root, which machines are provisioned with.

    Args:
        approvals: the folder of approvals.
        roles: the roles document.
        owners: who own the root.
        signing: two of them at least.
        curator: one of the curators.
        now_s: the present time in seconds since 1970.
        machine: gives what this machine starts from, of the first root. It is written before the root itself,
            and taken back if the root cannot be written.

    Raises:
        UsageError: there is one already, too few owners, or a place on the machine is taken.
        ApprovalRefused: the roles are unsound, or what was made does not verify.
    """
    _put_back(approvals)
    if files_below(approvals / TUF):
        raise UsageError(
            "trust-root-there",
            f"expected no trust root in {approvals / TUF}, found one",
            hint="change it with `memtrial trust rotate`, or choose another folder",
        )
    data = roles.canonical()
    loaded = load_roles(data, where="roles")
    curators = tuple(role_of(loaded, "curator", where="roles").keys.values())
    made = draft(People(owners, curators), data, now_s=now_s)
    files = signed_files({}, made, owners=signing, curator=curator, changed=ALL)
    _verified(files, now_s)
    places = machine(files[FIRST])
    _check_places(places)
    with ExitStack() as undo:
        for place in places:
            undo.callback(_take_back, place)
            provision(place)
        _write(approvals, files)
        undo.pop_all()
    return files[FIRST]


def rule_of(threshold: int, keys: tuple[PublicKey, ...]) -> RoleRule:
    """Returns the rule of a role.

    Raises:
        UsageError: fewer keys than must sign, or more than a role may have.
    """
    if not threshold <= len(keys) <= MAX_KEYS_PER_ROLE:
        raise UsageError(
            "keys-not-counted",
            f"expected from {threshold} to {MAX_KEYS_PER_ROLE} keys of a role, found {len(keys)}",
            hint="name all keys that the role is to have, each with its own option",
        )
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


def change_root(
    approvals: Path,
    made: Draft,
    *,
    owners: tuple[SigningKey, ...] = (),
    curator: SigningKey,
    changed: frozenset[str],
    now_s: int,
) -> TrustRoot:
    """Signs a draft and writes it once it verifies: all of it, or nothing.

    Args:
        approvals: the folder of approvals.
        made: the draft, with its versions raised.
        owners: who sign root and targets.
        curator: who signs the rest.
        changed: names of the roles that changed.
        now_s: the present time in seconds since 1970.

    Raises:
        ApprovalRefused: what was made does not verify.
        OSError: it could not be written.
    """
    before = files_below(approvals / TUF)
    new = signed_files(before, made, owners=owners, curator=curator, changed=changed)
    root = _verified({**before, **new}, now_s)
    _write(approvals, new)
    return root


def _write(approvals: Path, new: Mapping[str, bytes]) -> None:
    """Makes the new root beside the old one and puts it in its place.

    Whatever ends this, a kill too, leaves one of them whole: in place, or where `_put_back` finds it.

    Raises:
        ApprovalRefused: another ceremony changed the root since this one read it.
        OSError: it could not be written.
    """
    make_folders(approvals)
    folder, stage = approvals / TUF, approvals / STAGE
    with _alone(approvals):
        try:
            # Whoever had the folder before may have been killed meanwhile.
            _back(approvals)
            _check_first(folder, new)
            _clear(stage)
            stage.mkdir()
            (stage / ".gitignore").write_bytes(b"*\n")
            if folder.exists():
                shutil.copytree(folder, stage / TUF, symlinks=True, copy_function=_copy)
            for name, data in new.items():
                make_folders((stage / TUF / name).parent)
                write_atomic(stage / TUF / name, data)
            if folder.exists():
                folder.rename(stage / BEFORE)
                sync_folder(approvals)
            (stage / TUF).rename(folder)
            sync_folder(approvals)
        finally:
            _back(approvals)
            shutil.rmtree(stage, ignore_errors=True)


def _check_first(folder: Path, new: Mapping[str, bytes]) -> None:
    """Refuses to write over what another ceremony made: every change has a snapshot of the next version."""
    for name, data in new.items():
        path = folder / name
        if name != f"metadata/{TIMESTAMP}" and path.exists() and path.read_bytes() != data:
            raise ApprovalRefused(
                "trust-root-changed",
                f"expected no {name} of another ceremony, found one: the trust root changed meanwhile",
                hint="see `memtrial trust status`, then run the same command again",
            )


def _put_back(approvals: Path) -> None:
    """Puts the old root back if a ceremony was killed between taking it away and putting the new one in its place.

    Raises:
        OSError: it could not be moved.
    """
    if (approvals / STAGE / BEFORE).exists():
        with _alone(approvals):
            _back(approvals)


def _back(approvals: Path) -> None:
    before, folder = approvals / STAGE / BEFORE, approvals / TUF
    if before.exists() and not os.path.lexists(folder):
        before.rename(folder)
        sync_folder(approvals)


@contextmanager
def _alone(approvals: Path) -> Iterator[None]:
    """Waits for other ceremonies in this folder; a killed one is not waited for."""
    handle = os.open(approvals, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _clear(stage: Path) -> None:
    """Removes what a ceremony left that was killed; its root is in place."""
    if stage.exists():
        shutil.rmtree(stage)


def _copy(source: str, target: str) -> None:
    shutil.copy2(source, target)
    with Path(target).open("rb") as handle:
        os.fsync(handle.fileno())


def current(approvals: Path, *, now_s: int, lapsed: bool = False) -> TrustRoot:
    """Reads and verifies the trust root of a work tree, starting from its own first root.

    Good for looking and for ceremonies; the gate starts from the machine's own first root instead.

    Args:
        approvals: the folder of approvals.
        now_s: the present time in seconds since 1970.
        lapsed: take what has expired too, to renew it.

    Raises:
        UsageError: there is none.
        ApprovalRefused: it does not verify.
    """
    _put_back(approvals)
    files = files_below(approvals / TUF)
    if FIRST not in files:
        raise UsageError(
            "no-trust-root",
            f"expected a trust root in {approvals / TUF}, found none",
            hint="make one with `memtrial trust init`",
        )
    return _verified(files, now_s, lapsed=lapsed)


def _verified(files: Mapping[str, bytes], now_s: int, *, lapsed: bool = False) -> TrustRoot:
    root = read_root(files, bootstrap=files[FIRST], seen=RootState(), now_s=now_s, lapsed=lapsed)
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


def _check_places(places: tuple[Place, ...]) -> None:
    """Refuses places that are taken or the same, before anything is written.

    Raises:
        UsageError: something is there already, or two places are one folder.
    """
    for place in places:
        _check_free(place)
    if len({place.folder.resolve() for place in places}) < len(places):
        raise UsageError(
            "folders-not-apart",
            "expected one folder that all may read and one of the supervisor's user alone, found one for both",
            hint="name different folders with --system and --supervisor-state",
        )


def _check_free(place: Place) -> None:
    if place.folder.exists() and not place.folder.is_dir():
        raise UsageError(
            "system-folder-not-new",
            f"expected a new folder {place.folder}, found a file",
            hint="name another folder",
        )
    for name in place.files:
        if os.path.lexists(place.folder / name):
            raise UsageError(
                "system-folder-not-new",
                f"expected no {name} in {place.folder}, found one",
                hint="a machine's first root is replaced by root's own hand, never by a command",
            )


def provision(place: Place) -> None:
    """Writes what a machine starts from; as root it gives a user's own folder to that user.

    Raises:
        OSError: it cannot be written.
    """
    folder, owner_uid = place.folder, place.owner_uid
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in place.files.items():
        write_atomic(folder / name, data, mode=0o644 if owner_uid is None else 0o600)
        if owner_uid is not None and os.geteuid() == 0:
            os.chown(folder / name, owner_uid, -1)
    folder.chmod(0o755 if owner_uid is None else 0o700)
    if owner_uid is not None and os.geteuid() == 0:
        os.chown(folder, owner_uid, -1)


def _take_back(place: Place) -> None:
    for name in place.files:
        (place.folder / name).unlink(missing_ok=True)

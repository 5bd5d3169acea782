"""The operator's own corner: a key for local approvals, its roles document, and the pinned hash of that.

Made on first use below the configuration folder (0700; the key 0600). It lets one person allow
themselves a capped, directional run; it can allow nothing else.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from orchestrator.core.canonical import sha256_hex
from orchestrator.core.errors import ApprovalRefused
from orchestrator.core.files import write_atomic
from orchestrator.core.keys import SigningKey
from orchestrator.core.pae import to_base64
from orchestrator.model.roles import RoleKey, RoleRule, Roles
from orchestrator.trust.nonces import NonceBook
from orchestrator.trust.roles import TrustedRoles, load_roles

KEY = "operator.key.pem"
ROLES = "roles.json"
PIN = "roles.sha256"
MAX_ROLES_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Home:
    """The operator's corner as found: roles that passed, and the folder."""

    folder: Path
    roles: TrustedRoles

    @property
    def book(self) -> NonceBook:
        """Which local approvals were used."""
        return NonceBook(self.folder)

    def key(self) -> SigningKey:
        """Reads the operator's private key.

        Raises:
            UsageError: it is missing, or others can read it.
        """
        return SigningKey.load(self.folder / KEY)


def make_home(folder: Path) -> Home:
    """Makes the corner if it is not there, and opens it.

    Raises:
        ApprovalRefused: it is there in part, or changed.
    """
    if not (folder / PIN).exists() and not (folder / ROLES).exists():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        made = (folder / KEY).exists()
        key = SigningKey.load(folder / KEY) if made else SigningKey.create(folder / KEY)
        public = RoleKey(keyid=key.public.keyid, public_key=to_base64(key.public.raw))
        rule = RoleRule(threshold=1, keys=(public,))
        data = Roles(name="operator", kind="local", roles={"operator": rule}).canonical()
        write_atomic(folder / ROLES, data, mode=0o600)
        write_atomic(folder / PIN, sha256_hex(data).encode() + b"\n", mode=0o600)
    return open_home(folder)


def open_home(folder: Path) -> Home:
    """Opens the corner and checks its roles against the pinned hash.

    Raises:
        ApprovalRefused: not there, open to others, not the pinned bytes, or unsound.
    """
    try:
        found = os.lstat(folder)
        data = _read(folder / ROLES)
        pin = _read(folder / PIN)
    except OSError as error:
        raise ApprovalRefused(
            "no-local-approver",
            f"expected the operator's key and roles, found {error.strerror} at {error.filename}",
            hint="make them with the first approval: `memtrial approve local PLAN --max-usd N`",
        ) from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise ApprovalRefused(
            "local-approver-exposed",
            f"{folder}: expected a folder of mode 0700 that is yours, found {stat.filemode(found.st_mode)} of uid {found.st_uid}",
            hint=f"run `chmod 700 {folder}`; if others could write there, remove it and approve again",
        )
    if pin != sha256_hex(data).encode() + b"\n":
        raise ApprovalRefused(
            "root-not-the-pinned-one",
            f"{folder / ROLES}: expected the bytes with the pinned SHA-256, found {sha256_hex(data)[:16]}",
            hint="somebody changed it: restore it from a copy, or remove the folder and approve again",
        )
    return Home(folder, load_roles(data, where=ROLES))


def _read(path: Path) -> bytes:
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as stream:
        return stream.read(MAX_ROLES_BYTES)

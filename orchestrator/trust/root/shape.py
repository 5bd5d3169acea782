"""Checks one file of TUF metadata before TUF's client sees it: strict JSON, sound and different keys, known roles.

Pure. Signatures and versions are the client's business; this is what the client does not look at.
"""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.core.errors import ApprovalRefused, DocumentError
from orchestrator.core.pae import to_base64
from orchestrator.core.strictjson import parse_json
from orchestrator.model.roles import RoleKey
from orchestrator.trust.roles import load_key

MAX_BYTES = 512 * 1024
ROLES = {
    "root": {"root", "targets", "snapshot", "timestamp"},
    "targets": {"approvals"},
}
LEAST = {"root": 2, "targets": 2, "snapshot": 1, "timestamp": 1, "approvals": 1}
HINT = "have the owners of the trust root publish it again"


@dataclass(frozen=True, slots=True)
class Shaped:
    """What the rest of the checks need of one file of metadata, by its own unverified word."""

    kind: str
    version: int
    expires: str
    targets: tuple[str, ...]
    owners: frozenset[bytes]
    curators: frozenset[bytes]
    delegates: frozenset[bytes]


def check_shape(data: bytes, *, where: str) -> Shaped:
    """Checks one file.

    Raises:
        ApprovalRefused: not strict JSON, no TUF metadata, an unsound, misnamed or repeated key, a threshold
            that is too low, or a delegation other than the one to `approvals`.
    """
    try:
        document = parse_json(data, where=where, max_bytes=MAX_BYTES)
    except DocumentError as error:
        raise ApprovalRefused(error.reference, error.message, hint=HINT) from error
    signed = _object(_object(document, where).get("signed"), where)
    kind, version = signed.get("_type"), signed.get("version")
    if not isinstance(kind, str) or type(version) is not int or version < 1:
        raise _refuse(where, "a type and a version from 1 on", f"{kind!r} and {version!r}")
    expires = signed.get("expires")
    if not isinstance(expires, str):
        raise _refuse(where, "a time of expiry", repr(expires))
    held: dict[str, frozenset[bytes]] = {}
    if kind == "root":
        held = _held(signed, _object(signed.get("roles"), where), ROLES["root"], where)
    delegates = frozenset[bytes]()
    if kind == "targets" and "delegations" in signed:
        delegates = _delegates(_object(signed["delegations"], where), where)
    targets = signed.get("targets", {})
    return Shaped(
        kind=kind,
        version=version,
        expires=expires,
        targets=tuple(sorted(_object(targets, where))),
        owners=held.get("root", frozenset()) | held.get("targets", frozenset()),
        curators=held.get("snapshot", frozenset()) | held.get("timestamp", frozenset()),
        delegates=delegates,
    )


def _delegates(delegations: dict[str, object], where: str) -> frozenset[bytes]:
    listed = delegations.get("roles")
    if not isinstance(listed, list) or len(listed) != 1:
        raise _refuse(where, "one delegation", "none, more, or hash bins")
    role = _object(listed[0], where)
    wanted = (role.get("name"), role.get("paths"), role.get("terminating"))
    if wanted != ("approvals", ["approvals/*"], True):
        raise _refuse(where, "the delegation of approvals/*, terminating", str(wanted)[:120])
    return _held(delegations, {"approvals": role}, ROLES["targets"], where)["approvals"]


def _held(
    holder: dict[str, object], roles: dict[str, object], known: set[str], where: str
) -> dict[str, frozenset[bytes]]:
    """Returns the raw keys of each role; each key is sound, under its own name, and there once."""
    if set(roles) != known:
        raise _refuse(where, f"the roles {', '.join(sorted(known))}", ", ".join(sorted(roles)))
    keys = {
        name: _key(name, _object(key, where), where)
        for name, key in _object(holder.get("keys"), where).items()
    }
    held = {}
    for name, value in roles.items():
        role = _object(value, where)
        ids, threshold = role.get("keyids"), role.get("threshold")
        if not isinstance(ids, list) or not all(isinstance(i, str) and i in keys for i in ids):
            raise _refuse(where, f"known keys in {name}", "others")
        if len(set(ids)) != len(ids) or type(threshold) is not int:
            raise _refuse(where, f"each key of {name} once, and a threshold", "something else")
        if not LEAST[name] <= threshold <= len(ids):
            raise _refuse(
                where, f"a threshold of {name} from {LEAST[name]} to {len(ids)}", str(threshold)
            )
        held[name] = frozenset(keys[i] for i in ids)
    return held


def _key(name: str, key: dict[str, object], where: str) -> bytes:
    value = _object(key.get("keyval"), where).get("public")
    if (key.get("keytype"), key.get("scheme")) != ("ed25519", "ed25519"):
        raise _refuse(where, "Ed25519 keys", str(key.get("keytype"))[:40])
    try:
        raw = bytes.fromhex(value) if isinstance(value, str) and len(value) == 64 else b""
    except ValueError:
        raw = b""
    if raw.hex() != value:
        raise _refuse(where, "32 bytes in lower-case hexadecimal", str(value)[:80])
    try:
        entry = RoleKey(keyid=name, public_key=to_base64(raw))
    except ValueError as error:
        raise _refuse(where, "a keyid of 64 hexadecimal digits", name[:80]) from error
    return load_key(entry, where=where).raw


def _object(value: object, where: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise _refuse(where, "an object", type(value).__name__)
    return value


def _refuse(where: str, expected: str, found: str) -> ApprovalRefused:
    return ApprovalRefused(
        "metadata-malformed", f"{where}: expected {expected}, found {found}", hint=HINT
    )

"""Keys, roles and aliases that several tests of this folder share."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from orchestrator.core.canonical import canonical_bytes
from orchestrator.core.curve import ORDER, P, add, decode, encode, multiply
from orchestrator.core.keys import PublicKey, SigningKey
from orchestrator.core.pae import to_base64

BASE = bytes.fromhex("58" + "66" * 31)
# A generator of the eight points of small order.
TORSION = bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05")


def key(name: str) -> SigningKey:
    """The key of a person by name, always the same."""
    return SigningKey(hashlib.sha256(f"memtrial test key of {name}".encode()).digest())


def entry(public: PublicKey, keyid: str | None = None) -> dict[str, str]:
    return {"keyid": keyid or public.keyid, "public_key": to_base64(public.raw)}


def rule(threshold: int, *keys: SigningKey | dict[str, str]) -> dict[str, Any]:
    return {
        "threshold": threshold,
        "keys": [k if isinstance(k, dict) else entry(k.public) for k in keys],
    }


def key_file(folder: Path, key: SigningKey) -> Path:
    """Writes a private key as its owner keeps it."""
    path = folder / f"{key.public.keyid[:16]}.pem"
    pem = key._private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path.write_bytes(pem)
    path.chmod(0o600)
    return path


APPROVERS = tuple(key(f"approver {i}") for i in range(3))
CURATORS = tuple(key(f"curator {i}") for i in range(2))
SUPERVISOR = key("supervisor")
LEDGER = key("ledger")


def roles(**changes: Any) -> dict[str, Any]:
    """An organisation's roles as a document, with some roles replaced."""
    document: dict[str, Any] = {
        "schema_version": 1,
        "name": "example",
        "kind": "organisation",
        "roles": {
            "approver": rule(2, *APPROVERS),
            "curator": rule(1, *CURATORS),
            "supervisor": rule(1, SUPERVISOR),
            "ledger": rule(1, LEDGER),
        },
    }
    document["roles"].update(changes)
    return document


def as_bytes(document: object) -> bytes:
    return canonical_bytes(document)


def small_order_encodings() -> list[bytes]:
    """The 14 encodings of the eight points of small order: canonical, y + p where that fits, either sign."""
    point = decode(TORSION)
    assert point is not None
    encodings = set()
    for i in range(8):
        canonical = encode(multiply(i, point))
        number = int.from_bytes(canonical, "little")
        y, sign = number & ((1 << 255) - 1), number >> 255
        for value in (y, y + P):
            for bit in {sign, *({0, 1} if y in {1, P - 1} else ())}:
                if value < 1 << 255:
                    encodings.add((value | bit << 255).to_bytes(32, "little"))
    return sorted(encodings)


def aliases(public: PublicKey) -> list[PublicKey]:
    """The seven other keys under which signatures of one private key can be made to verify."""
    point, torsion = decode(public.raw), decode(TORSION)
    assert point is not None
    assert torsion is not None
    return [PublicKey(encode(add(point, multiply(i, torsion)))) for i in range(1, 8)]


def sign_as_alias(seed: bytes, alias: PublicKey, message: bytes) -> bytes:
    """Signs with a private key so that its alias verifies: tries nonces until the torsion part drops out."""
    digest = hashlib.sha512(seed).digest()
    scalar = (int.from_bytes(digest[:32], "little") & ((1 << 254) - 8)) | 1 << 254
    base = decode(BASE)
    assert base is not None
    for counter in _numbers():
        nonce = int.from_bytes(hashlib.sha512(digest[32:] + message + counter).digest(), "little")
        r = encode(multiply(nonce % ORDER, base))
        k = int.from_bytes(hashlib.sha512(r + alias.raw + message).digest(), "little") % ORDER
        if k % 8 == 0:
            return r + ((nonce + k * scalar) % ORDER).to_bytes(32, "little")
    raise AssertionError


def _numbers() -> Iterator[bytes]:
    yield from (i.to_bytes(4, "little") for i in range(10_000))

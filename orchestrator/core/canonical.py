"""Canonical bytes (RFC 8785, JSON Canonicalization Scheme) and SHA-256 digests over them.

Pure. Refuses NaN and integers of 2^53 and more, as the RFC's number model demands.
"""

from __future__ import annotations

import hashlib

import rfc8785


def canonical_bytes(value: object) -> bytes:
    """Returns the RFC 8785 encoding of a JSON-shaped value."""
    return rfc8785.dumps(value)  # type: ignore[arg-type]


def sha256_hex(data: bytes) -> str:
    """Returns the lower-case hexadecimal SHA-256 of the bytes."""
    return hashlib.sha256(data).hexdigest()


def digest_sha256(value: object) -> str:
    """Returns the SHA-256 over the canonical bytes of a JSON-shaped value."""
    return sha256_hex(canonical_bytes(value))

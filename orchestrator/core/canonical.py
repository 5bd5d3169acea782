"""Canonical bytes (RFC 8785, JSON Canonicalization Scheme) and SHA-256 digests over them.

Pure. Refuses NaN and integers of 2^53 and more, as the RFC's number model demands. Values without
fractions, whose keys are ASCII, come out of the standard library's encoder: docs/adr/0057.
"""

from __future__ import annotations

import hashlib
import json

import rfc8785

_MAX_INTEGER = 2**53 - 1
# RFC 8785, 3.2: no blanks, keys sorted, and only the escapes that JSON demands.
_ENCODER = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")
)


def canonical_bytes(value: object) -> bytes:
    """Returns the RFC 8785 encoding of a JSON-shaped value.

    Raises:
        ValueError: NaN, an integer of 2^53 and more, a lone surrogate, or no JSON shape.
    """
    if _plain(value):
        try:
            return _ENCODER.encode(value).encode("utf-8")
        except UnicodeEncodeError:
            pass
    return rfc8785.dumps(value)  # type: ignore[arg-type]


def _plain(value: object) -> bool:
    """Tells whether both encoders agree on a value.

    They differ in fractions (3.2.2.3 asks for ECMAScript's digits), in the order of keys beyond the
    basic plane (3.2.3 sorts UTF-16 units), and in what they refuse: such values are the library's.
    """
    kind = type(value)
    if kind is str or kind is bool or value is None:
        return True
    if isinstance(value, int):
        return kind is int and -_MAX_INTEGER <= value <= _MAX_INTEGER
    if isinstance(value, dict):
        return (
            kind is dict
            and all(type(key) is str and key.isascii() for key in value)
            and all(map(_plain, value.values()))
        )
    return isinstance(value, list | tuple) and all(map(_plain, value))


def sha256_hex(data: bytes) -> str:
    """Returns the lower-case hexadecimal SHA-256 of the bytes."""
    return hashlib.sha256(data).hexdigest()


def digest_sha256(value: object) -> str:
    """Returns the SHA-256 over the canonical bytes of a JSON-shaped value."""
    return sha256_hex(canonical_bytes(value))

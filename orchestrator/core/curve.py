"""Decides whether 32 bytes are a sound Ed25519 public key: canonical, on the curve, in the prime-order group.

Verifiers in common use accept every small-order and non-canonical key, and eight aliases of each honest
one: with them one signature fits any message, and one person counts as several. Pure arithmetic over
public values; needs no constant time. Source: RFC 8032 section 5.1 (field, curve, decoding).
"""

from __future__ import annotations

import functools

P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
_D = -121665 * pow(121666, -1, P) % P
_SQRT_MINUS_1 = pow(2, (P - 1) // 4, P)

# Extended homogeneous coordinates (X, Y, Z, T) with x = X/Z, y = Y/Z, xy = T/Z.
Point = tuple[int, int, int, int]
IDENTITY: Point = (0, 1, 1, 0)


@functools.lru_cache(maxsize=1024)
def fault_of_public_key(raw: bytes) -> str | None:
    """Returns why the bytes are no sound public key, or None if they are one."""
    if len(raw) != 32:
        return f"{len(raw)} bytes instead of 32"
    point = decode(raw)
    if point is None:
        return "an encoding that is not canonical or not on the curve"
    if _is_identity(multiply(8, point)):
        return "a point of small order"
    if not _is_identity(multiply(ORDER, point)):
        return "a point outside the prime-order group"
    return None


def decode(raw: bytes) -> Point | None:
    """Decodes a point; None for a non-canonical encoding or a value that is not on the curve."""
    number = int.from_bytes(raw, "little")
    sign, y = number >> 255, number & ((1 << 255) - 1)
    if y >= P:
        return None
    u, v = (y * y - 1) % P, (_D * y * y + 1) % P
    x = u * pow(v, 3, P) * pow(u * pow(v, 7, P), (P - 5) // 8, P) % P
    if (v * x * x - u) % P:
        x = x * _SQRT_MINUS_1 % P
    if (v * x * x - u) % P or (x == 0 and sign):
        return None
    if x & 1 != sign:
        x = P - x
    return (x, y, 1, x * y % P)


def encode(point: Point) -> bytes:
    """Returns the canonical 32 bytes of a point."""
    inverse = pow(point[2], -1, P)
    x, y = point[0] * inverse % P, point[1] * inverse % P
    return (y | (x & 1) << 255).to_bytes(32, "little")


def add(one: Point, other: Point) -> Point:
    """Adds two points (RFC 8032 section 5.1.4; complete, so doubling needs no case of its own)."""
    a = (one[1] - one[0]) * (other[1] - other[0]) % P
    b = (one[1] + one[0]) * (other[1] + other[0]) % P
    c = 2 * one[3] * other[3] * _D % P
    d = 2 * one[2] * other[2] % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return (e * f % P, g * h % P, f * g % P, e * h % P)


def multiply(scalar: int, point: Point) -> Point:
    """Multiplies a point by a non-negative scalar."""
    result = IDENTITY
    while scalar:
        if scalar & 1:
            result = add(result, point)
        point = add(point, point)
        scalar >>= 1
    return result


def _is_identity(point: Point) -> bool:
    return point[0] % P == 0 and (point[1] - point[2]) % P == 0

"""The bytes that a DSSE signature covers, and the one base64 form that is accepted. Pure.

Format: DSSE v1, pre-authentication encoding `DSSEv1 SP len(type) SP type SP len(body) SP body`; base64 is
the standard alphabet with padding (RFC 4648 section 4) and must encode back to itself.
"""

from __future__ import annotations

import base64
import binascii

from orchestrator.core.errors import DocumentError


def pre_authentication_encoding(payload_type: str, payload: bytes) -> bytes:
    """Returns the bytes that are signed."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


def to_base64(data: bytes) -> str:
    """Returns standard base64 with padding."""
    return base64.b64encode(data).decode()


def from_base64(text: str, *, where: str) -> bytes:
    """Decodes standard base64 in its one canonical form.

    Raises:
        DocumentError: another alphabet, white space, missing padding or stray bits.
    """
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    if to_base64(raw) != text:
        raise DocumentError(
            "base64-malformed",
            f"{where}: expected standard base64 with padding, found something else",
            hint="get the file again from its source",
        )
    return raw

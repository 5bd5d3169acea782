"""DSSE v1: one Ed25519 signature over the exact bytes of a payload and its type. Pure.

The signed bytes are the pre-authentication encoding `DSSEv1 SP len(type) SP type SP len(body) SP body`.
An envelope is accepted only as its own canonical bytes, so no byte of a file can change unnoticed.
"""

from __future__ import annotations

import base64
import binascii

from orchestrator.core.errors import DocumentError, IntegrityError
from orchestrator.core.keys import PublicKey, SigningKey
from orchestrator.model.statement import PAYLOAD_TYPE, Envelope, Signature

MAX_ENVELOPE_BYTES = 64 * 1024 * 1024


def pre_authentication_encoding(payload_type: str, payload: bytes) -> bytes:
    """Returns the bytes that are signed."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


def sign_payload(payload: bytes, key: SigningKey, *, payload_type: str = PAYLOAD_TYPE) -> bytes:
    """Returns the canonical bytes of a signed envelope."""
    signature = key.sign(pre_authentication_encoding(payload_type, payload))
    return Envelope(
        payload=base64.b64encode(payload).decode(),
        payload_type=payload_type,
        signatures=(Signature(keyid=key.public.keyid, sig=base64.b64encode(signature).decode()),),
    ).canonical()


def open_envelope(
    data: bytes, key: PublicKey, *, where: str, payload_type: str = PAYLOAD_TYPE
) -> bytes:
    """Verifies an envelope and returns its payload.

    Raises:
        DocumentError: not the canonical bytes of an envelope.
        IntegrityError: another payload type, another key, or a signature that does not verify.
    """
    envelope = Envelope.parse_canonical(data, where=where, max_bytes=MAX_ENVELOPE_BYTES)
    signature = envelope.signatures[0]
    if envelope.payload_type != payload_type or signature.keyid != key.keyid:
        raise IntegrityError(
            "envelope-not-expected",
            f"{where}: expected type {payload_type} signed by {key.keyid[:16]}, found {envelope.payload_type} signed by {signature.keyid[:16]}",
            hint="get the file again from its source; it was made for something else or by someone else",
        )
    payload = _decode(envelope.payload, where)
    message = pre_authentication_encoding(payload_type, payload)
    key.verify(_decode(signature.sig, where), message, where=where)
    return payload


def _decode(text: str, where: str) -> bytes:
    try:
        raw = base64.b64decode(text, validate=True)
    except binascii.Error:
        raw = b""
    if base64.b64encode(raw).decode() != text:
        raise DocumentError(
            "base64-malformed",
            f"{where}: expected standard base64 with padding, found something else",
            hint="get the file again from its source",
        )
    return raw

"""DSSE v1: one Ed25519 signature over the exact bytes of a payload and its type. Pure.

The signed bytes are the pre-authentication encoding `DSSEv1 SP len(type) SP type SP len(body) SP body`.
An envelope is accepted only as its own canonical bytes, so no byte of a file can change unnoticed.
"""

from __future__ import annotations

from orchestrator.core.errors import IntegrityError
from orchestrator.core.keys import PublicKey, SigningKey
from orchestrator.core.pae import from_base64, pre_authentication_encoding, to_base64
from orchestrator.model.statement import PAYLOAD_TYPE, Envelope, Signature

MAX_ENVELOPE_BYTES = 64 * 1024 * 1024


def sign_payload(payload: bytes, key: SigningKey, *, payload_type: str = PAYLOAD_TYPE) -> bytes:
    """Returns the canonical bytes of a signed envelope."""
    signature = key.sign(pre_authentication_encoding(payload_type, payload))
    return Envelope(
        payload=to_base64(payload),
        payload_type=payload_type,
        signatures=(Signature(keyid=key.public.keyid, sig=to_base64(signature)),),
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
    payload = from_base64(envelope.payload, where=where)
    message = pre_authentication_encoding(payload_type, payload)
    key.verify(from_base64(signature.sig, where=where), message, where=where)
    return payload

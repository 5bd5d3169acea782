"""Opens and makes DSSE envelopes with several signatures: nothing inside is read before enough people signed it.

Each role signs one payload type, so an envelope of one kind cannot stand for another. A signature that
does not verify refuses the whole envelope; it is never just not counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from orchestrator.core.errors import ApprovalRefused, DocumentError, IntegrityError
from orchestrator.core.keys import PublicKey, SigningKey
from orchestrator.core.pae import from_base64, pre_authentication_encoding, to_base64
from orchestrator.model.approval import ManyEnvelope
from orchestrator.model.statement import Signature
from orchestrator.trust.roles import Role, signers_of

MAX_ENVELOPE_BYTES = 512 * 1024
AGAIN = "get the file again from the one who signed it"


@dataclass(frozen=True, slots=True)
class Opened:
    """An envelope whose signatures hold: its payload and who signed, by keyid in order."""

    payload: bytes
    signers: tuple[str, ...]


def parse_envelope(data: bytes, *, where: str) -> ManyEnvelope:
    """Reads an envelope without judging its signatures.

    Raises:
        ApprovalRefused: not the canonical bytes of an envelope, or a signer twice.
    """
    try:
        envelope = ManyEnvelope.parse_canonical(data, where=where, max_bytes=MAX_ENVELOPE_BYTES)
    except DocumentError as error:
        raise ApprovalRefused("envelope-malformed", error.message, hint=AGAIN) from error
    signers = signers_of(envelope)
    if len(set(signers)) != len(signers):
        raise ApprovalRefused(
            "signed-twice-by-one-key",
            f"{where}: expected each signer once, found one twice among {_short(signers)}",
            hint=AGAIN,
        )
    return envelope


def open_signed(data: bytes, role: Role, *, payload_type: str, where: str) -> Opened:
    """Verifies an envelope against a role and returns its payload.

    Args:
        data: the exact bytes of the envelope.
        role: whose signatures count, and how many of them are needed.
        payload_type: what this role signs here.
        where: name of the envelope for the error text.

    Raises:
        ApprovalRefused: malformed, another payload type, a signer outside the role, a signature that does
            not verify, or too few signers.
    """
    found = open_started(data, role, payload_type=payload_type, where=where)
    if len(found.signers) < role.threshold:
        raise ApprovalRefused(
            "threshold-not-met",
            f"{where}: expected signatures by {role.threshold} of the role {role.name}, found {len(found.signers)} ({_short(found.signers)})",
            hint="have it signed by more people: `memtrial approve sign`",
        )
    return found


def open_started(data: bytes, role: Role, *, payload_type: str, where: str) -> Opened:
    """Verifies an envelope that people are still signing: every signature must hold, however few there are.

    Raises:
        ApprovalRefused: as `open_signed`, but for too few signers.
    """
    envelope = parse_envelope(data, where=where)
    if envelope.payload_type != payload_type:
        raise ApprovalRefused(
            "payload-type-not-expected",
            f"{where}: expected payload type {payload_type}, found {envelope.payload_type}",
            hint=AGAIN,
        )
    payload = _decoded(envelope.payload, where)
    message = pre_authentication_encoding(payload_type, payload)
    for signature in envelope.signatures:
        key = role.keys.get(signature.keyid)
        if key is None:
            raise ApprovalRefused(
                "signer-not-in-role",
                f"{where}: expected signatures of the role {role.name} ({_short(role.keys)}), found one by {signature.keyid[:16]}",
                hint=f"have a holder of the role {role.name} sign it",
            )
        _verify(key, _decoded(signature.sig, where), message, where)
    return Opened(payload, signers_of(envelope))


def _decoded(text: str, where: str) -> bytes:
    try:
        return from_base64(text, where=where)
    except DocumentError as error:
        raise ApprovalRefused(error.reference, error.message, hint=AGAIN) from error


def _verify(key: PublicKey, signature: bytes, message: bytes, where: str) -> None:
    try:
        key.verify(signature, message, where=where)
    except IntegrityError as error:
        raise ApprovalRefused(error.reference, error.message, hint=AGAIN) from error


def _short(keyids: Iterable[str]) -> str:
    return ", ".join(keyid[:16] for keyid in keyids)


def sign_new(payload: bytes, keys: tuple[SigningKey, ...], *, payload_type: str) -> bytes:
    """Returns the canonical bytes of an envelope that each key signed."""
    message = pre_authentication_encoding(payload_type, payload)
    signatures = tuple(
        Signature(keyid=key.public.keyid, sig=to_base64(key.sign(message))) for key in keys
    )
    return ManyEnvelope(
        payload=to_base64(payload), payload_type=payload_type, signatures=signatures
    ).canonical()


def add_signature(data: bytes, key: SigningKey, *, where: str) -> bytes:
    """Returns an envelope with one signature more; the others stay as they are.

    Raises:
        ApprovalRefused: it is malformed, or this key signed it already.
    """
    envelope = parse_envelope(data, where=where)
    payload = _decoded(envelope.payload, where)
    if key.public.keyid in signers_of(envelope):
        raise ApprovalRefused(
            "signed-already",
            f"{where}: expected another signer, found that {key.public.keyid[:16]} signed it already",
            hint="have somebody else sign it",
        )
    message = pre_authentication_encoding(envelope.payload_type, payload)
    added = Signature(keyid=key.public.keyid, sig=to_base64(key.sign(message)))
    return envelope.model_copy(update={"signatures": (*envelope.signatures, added)}).canonical()

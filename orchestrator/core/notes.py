"""Checkpoints as signed notes: who signed which size and root of a ledger.

Formats: C2SP signed-note and tlog-checkpoint. A checkpoint's text is origin, size in decimal and root in
base64, one a line; a signature line is `— name base64(key hash || signature)`, where the key hash is the
first four bytes of SHA-256(name || 0x0A || 0x01 || key) and 0x01 stands for Ed25519. Pure.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from dataclasses import dataclass

from orchestrator.core.errors import DocumentError, IntegrityError
from orchestrator.core.keys import PublicKey, SigningKey

_DASH = "\u2014"
_ED25519 = b"\x01"
_NAME = re.compile(r"[a-z0-9./_-]{1,200}")
_SIZE = re.compile(r"0|[1-9][0-9]{0,15}")
_SIGNATURE = re.compile(rf"{_DASH} (\S+) ([A-Za-z0-9+/]+={{0,2}})")
MAX_NOTE_BYTES = 16 * 1024
MAX_SIGNATURES = 16


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A ledger's size and root under the ledger's name."""

    origin: str
    size: int
    root: bytes

    def text(self) -> str:
        """Returns the signed text."""
        return f"{self.origin}\n{self.size}\n{base64.b64encode(self.root).decode()}\n"


@dataclass(frozen=True, slots=True)
class SignedCheckpoint:
    """A checkpoint as read, with its signatures (name, key hash, signature) yet unverified."""

    checkpoint: Checkpoint
    signatures: tuple[tuple[str, bytes, bytes], ...]

    def verify(self, key: PublicKey, *, where: str) -> None:
        """Checks that the ledger's own key signed it, under the ledger's name.

        Raises:
            IntegrityError: no signature by this key, or one that does not verify.
        """
        origin = self.checkpoint.origin
        wanted = key_hash(origin, key)
        for name, found, signature in self.signatures:
            if name == origin and found == wanted:
                key.verify(signature, self.checkpoint.text().encode(), where=where)
                return
        raise IntegrityError(
            "checkpoint-not-signed",
            f"{where}: expected a signature of {origin} by key {key.keyid[:16]}, found none",
            hint="get the checkpoint again from its source",
        )


def key_hash(name: str, key: PublicKey) -> bytes:
    """Returns the four bytes that name a key in a signature line."""
    return hashlib.sha256(name.encode() + b"\n" + _ED25519 + key.raw).digest()[:4]


def sign_checkpoint(checkpoint: Checkpoint, key: SigningKey) -> bytes:
    """Returns the signed note."""
    signature = key.sign(checkpoint.text().encode())
    line = base64.b64encode(key_hash(checkpoint.origin, key.public) + signature).decode()
    return f"{checkpoint.text()}\n{_DASH} {checkpoint.origin} {line}\n".encode()


def parse_checkpoint(data: bytes, *, where: str) -> SignedCheckpoint:
    """Parses a signed note; verifies no signature.

    Raises:
        DocumentError: not the form of a checkpoint.
    """
    try:
        text = data.decode("utf-8") if len(data) <= MAX_NOTE_BYTES else ""
    except UnicodeDecodeError:
        text = ""
    head, blank, tail = text.partition("\n\n")
    lines = head.split("\n")
    matches = [_SIGNATURE.fullmatch(line) for line in tail.removesuffix("\n").split("\n")]
    signatures = [match for match in matches if match is not None]
    whole = blank and tail.endswith("\n") and len(signatures) == len(matches) <= MAX_SIGNATURES
    if (
        not whole
        or len(lines) != 3
        or not _NAME.fullmatch(lines[0])
        or not _SIZE.fullmatch(lines[1])
    ):
        raise _malformed(where)
    return SignedCheckpoint(
        Checkpoint(lines[0], int(lines[1]), _root(lines[2], where)),
        tuple(_signature(match, where) for match in signatures),
    )


def _signature(match: re.Match[str], where: str) -> tuple[str, bytes, bytes]:
    raw = _decode(match[2], where)
    if len(raw) < 5:
        raise _malformed(where)
    return match[1], raw[:4], raw[4:]


def _root(text: str, where: str) -> bytes:
    root = _decode(text, where)
    if len(root) != 32:
        raise _malformed(where)
    return root


def _decode(text: str, where: str) -> bytes:
    try:
        raw = base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise _malformed(where) from error
    if base64.b64encode(raw).decode() != text:
        raise _malformed(where)
    return raw


def _malformed(where: str) -> DocumentError:
    return DocumentError(
        "checkpoint-malformed",
        f"{where}: expected a checkpoint (origin, size, root, blank line, signature lines), found something else",
        hint="get the checkpoint again from its source",
    )

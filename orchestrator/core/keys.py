"""Ed25519 keys and signatures: strict loading, signing, verifying. The only user of `cryptography` with `certificates`.

A key is named by its keyid, the SHA-256 of its SubjectPublicKeyInfo (RFC 8410); what
`openssl pkey -pubin -outform DER | sha256sum` prints. Private keys are read only from files that nobody
else can read, and written only to a new file of that kind.
"""

from __future__ import annotations

import base64
import binascii
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from orchestrator.core.canonical import sha256_hex
from orchestrator.core.curve import fault_of_public_key
from orchestrator.core.errors import DocumentError, IntegrityError, UsageError
from orchestrator.core.files import sync_folder

# RFC 8410: SEQUENCE { SEQUENCE { OID 1.3.101.112 } BIT STRING } before the 32 bytes of the key.
_SPKI_PREFIX = bytes.fromhex("302a300506032b6570032100")
# RFC 8410: SEQUENCE { INTEGER 0, SEQUENCE { OID }, OCTET STRING { OCTET STRING } } before the 32 bytes.
_PKCS8_PREFIX = bytes.fromhex("302e020100300506032b657004220420")
_PEM_HEAD = b"-----BEGIN PUBLIC KEY-----\n"
_PEM_TAIL = b"\n-----END PUBLIC KEY-----\n"
MAX_KEY_FILE_BYTES = 4096
# Openssl overwrites what is there: a hint that is followed with a path mistyped must destroy no key.
MAKE_KEY = "`test ! -e key.pem && (umask 077; openssl genpkey -algorithm ed25519 -out key.pem)`"


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A public key that passed the strict checks; make one with `parse_*` only."""

    raw: bytes

    @classmethod
    def parse_raw(cls, raw: bytes, *, where: str) -> PublicKey:
        """Takes 32 bytes.

        Raises:
            IntegrityError: not a canonical point of the prime-order group.
        """
        fault = fault_of_public_key(raw)
        if fault is not None:
            raise IntegrityError(
                "key-not-sound",
                f"{where}: expected an Ed25519 key in the prime-order group, found {fault}",
                hint="ask the key's owner for a key that was made by `openssl genpkey -algorithm ed25519`",
            )
        return cls(raw)

    @classmethod
    def parse_pem(cls, data: bytes, *, where: str) -> PublicKey:
        """Takes the one canonical PEM form of a key, as OpenSSL writes it.

        Raises:
            DocumentError: anything else than that form.
            IntegrityError: the key itself is not sound.
        """
        body = data.removeprefix(_PEM_HEAD).removesuffix(_PEM_TAIL)
        try:
            der = base64.b64decode(body, validate=True)
        except binascii.Error:
            der = b""
        raw = der.removeprefix(_SPKI_PREFIX)
        if len(raw) != 32 or cls(raw).pem() != data:
            raise DocumentError(
                "key-malformed",
                f"{where}: expected one Ed25519 public key in PEM, found {len(data)} other bytes",
                hint="write it with `openssl pkey -in key.pem -pubout -out key.pub.pem`",
            )
        return cls.parse_raw(raw, where=where)

    @property
    def spki(self) -> bytes:
        """The key as SubjectPublicKeyInfo (DER)."""
        return _SPKI_PREFIX + self.raw

    @property
    def keyid(self) -> str:
        """SHA-256 of the SubjectPublicKeyInfo."""
        return sha256_hex(self.spki)

    def pem(self) -> bytes:
        """Returns the canonical PEM bytes."""
        return _PEM_HEAD + base64.b64encode(self.spki) + _PEM_TAIL

    def verify(self, signature: bytes, message: bytes, *, where: str) -> None:
        """Checks a signature over exact bytes.

        Raises:
            IntegrityError: it is not this key's signature over this message.
        """
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        try:
            Ed25519PublicKey.from_public_bytes(self.raw).verify(signature, message)
        except InvalidSignature as error:
            raise IntegrityError(
                "signature-invalid",
                f"{where}: expected a signature by key {self.keyid[:16]}, found one that does not verify",
                hint="get the file again from its source; it was changed or signed by someone else",
            ) from error


class SigningKey:
    """A private key in memory. Its bytes are never printed; `create` alone writes them."""

    __slots__ = ("_private", "public")

    def __init__(self, seed: bytes) -> None:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        self._private = Ed25519PrivateKey.from_private_bytes(seed)
        self.public = PublicKey.parse_raw(
            self._private.public_key().public_bytes_raw(), where="signing key"
        )

    @classmethod
    def generate(cls) -> SigningKey:
        """Makes a key from the system's random source."""
        return cls(os.urandom(32))

    @classmethod
    def load(cls, path: Path) -> SigningKey:
        """Reads an unencrypted PKCS#8 PEM file.

        Raises:
            UsageError: there is no such file, others can read it, or it holds a public key.
            DocumentError: it holds no Ed25519 private key.
        """
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        data = _read_private(path)
        try:
            key = load_pem_private_key(data, password=None)
        except (ValueError, TypeError) as error:
            raise _not_a_key(path) from error
        if not isinstance(key, Ed25519PrivateKey):
            raise _not_a_key(path)
        return cls(key.private_bytes_raw())

    @classmethod
    def create(cls, path: Path) -> SigningKey:
        """Makes a key and writes it to a new file (PKCS#8 PEM, mode 0600), synced before this returns.

        Raises:
            UsageError: the file is there already, or cannot be made.
        """
        seed = os.urandom(32)
        body = base64.b64encode(_PKCS8_PREFIX + seed)
        data = b"-----BEGIN PRIVATE KEY-----\n" + body + b"\n-----END PRIVATE KEY-----\n"
        try:
            handle = os.open(
                path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
            )
        except OSError as error:
            raise UsageError(
                "signing-key-not-made",
                f"expected to make a new key file, found {error.strerror} at {path}",
                hint="choose another name; a key that is there is never overwritten",
            ) from error
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(handle)
        sync_folder(path.parent)
        return cls(seed)

    def sign(self, message: bytes) -> bytes:
        """Returns the 64 bytes of the signature."""
        return self._private.sign(message)


def _read_private(path: Path) -> bytes:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise UsageError(
            "signing-key-missing",
            f"expected a private key file, found {error.strerror} at {path}",
            hint=f"check the path; a new key is made by {MAKE_KEY}",
        ) from error
    with os.fdopen(handle, "rb") as stream:
        found = os.fstat(handle)
        regular = stat.S_ISREG(found.st_mode)
        data = stream.read(MAX_KEY_FILE_BYTES) if regular else b""
        if data.startswith(_PEM_HEAD):
            raise UsageError(
                "signing-key-is-public",
                f"{path}: expected a private key, found a public one",
                hint="name the file of the private key that belongs to it; a public key may be read by all",
            )
        if not regular or found.st_mode & 0o077:
            raise UsageError(
                "signing-key-exposed",
                f"{path}: expected a regular file that only its owner can read, found mode {stat.filemode(found.st_mode)}",
                hint=f"run `chmod 600 {path}`; if others could read it, make a new key",
            )
        return data


def _not_a_key(path: Path) -> DocumentError:
    return DocumentError(
        "signing-key-malformed",
        f"{path}: expected an unencrypted Ed25519 private key in PKCS#8 PEM, found something else",
        hint=f"check the path; a new key is made by {MAKE_KEY}",
    )

"""A certificate authority, a certificate-transparency signer and a log key, all of this project's own.

They stand behind the offline sigstore instance: short-lived P-256 leaves under a P-384 root, each with an
embedded signed certificate timestamp (RFC 6962 section 3.2). Private keys stay in memory, or in a folder
that only its owner can read.
"""

from __future__ import annotations

import hashlib
import os
import struct
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.core.errors import UsageError
from orchestrator.core.files import write_atomic
from orchestrator.core.keys import SigningKey

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import (
        EllipticCurvePrivateKey,
        EllipticCurvePublicKey,
    )
    from cryptography.x509 import Certificate, CertificateBuilder, KeyUsage

LEAF_LIFE_S = 600
_ISSUER_OID = "1.3.6.1.4.1.57264.1.1"
_SCT_LIST_OID = "1.3.6.1.4.1.11129.2.4.2"


@dataclass(frozen=True, slots=True)
class Leaf:
    """A short-lived key with its certificate."""

    key: EllipticCurvePrivateKey
    certificate: Certificate
    until_s: float

    @property
    def der(self) -> bytes:
        """The certificate in DER."""
        from cryptography.hazmat.primitives.serialization import Encoding

        return self.certificate.public_bytes(Encoding.DER)

    @property
    def pem(self) -> bytes:
        """The certificate in PEM."""
        from cryptography.hazmat.primitives.serialization import Encoding

        return self.certificate.public_bytes(Encoding.PEM)

    def sign(self, message: bytes) -> bytes:
        """Returns the ECDSA signature (SHA-256, DER)."""
        from cryptography.hazmat.primitives.asymmetric.ec import ECDSA
        from cryptography.hazmat.primitives.hashes import SHA256

        return self.key.sign(message, ECDSA(SHA256()))


@dataclass(frozen=True, slots=True)
class Authority:
    """The three private keys of an own instance, and the root certificate."""

    ca_key: EllipticCurvePrivateKey
    ca_certificate: Certificate
    ct_key: EllipticCurvePrivateKey
    log_key: SigningKey
    log_seed: bytes

    @property
    def ca_der(self) -> bytes:
        """The root certificate in DER."""
        from cryptography.hazmat.primitives.serialization import Encoding

        return self.ca_certificate.public_bytes(Encoding.DER)

    @property
    def ct_spki(self) -> bytes:
        """The public key that signs certificate timestamps, as SubjectPublicKeyInfo."""
        return _spki(self.ct_key.public_key())

    def issue(self, *, identity: str, issuer: str, now_s: float) -> Leaf:
        """Makes a key and issues a code-signing leaf for a URI identity, good for LEAF_LIFE_S seconds."""
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.hazmat.primitives.hashes import SHA384
        from cryptography.x509 import ObjectIdentifier, UnrecognizedExtension

        key = ec.generate_private_key(ec.SECP256R1())
        begin = datetime.fromtimestamp(int(now_s), UTC)
        builder = _leaf(self, key.public_key(), identity, issuer, begin)
        precertificate = builder.sign(self.ca_key, SHA384())
        timestamps = _timestamp_list(self, precertificate.tbs_certificate_bytes, int(now_s) * 1000)
        certificate = builder.add_extension(
            UnrecognizedExtension(ObjectIdentifier(_SCT_LIST_OID), timestamps), critical=False
        ).sign(self.ca_key, SHA384())
        return Leaf(key, certificate, now_s + LEAF_LIFE_S)


def create_authority(now_s: float) -> Authority:
    """Makes new keys and a root certificate that is valid for ten years."""
    from cryptography.hazmat.primitives.asymmetric import ec

    seed = os.urandom(32)
    ca_key = ec.generate_private_key(ec.SECP384R1())
    return Authority(
        ca_key=ca_key,
        ca_certificate=_root(ca_key, datetime.fromtimestamp(int(now_s), UTC)),
        ct_key=ec.generate_private_key(ec.SECP256R1()),
        log_key=SigningKey(seed),
        log_seed=seed,
    )


def save_authority(authority: Authority, folder: Path) -> None:
    """Writes an instance's keys into a folder that only its owner can read."""
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
    )

    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name, key in (("ca.key.pem", authority.ca_key), ("ct.key.pem", authority.ct_key)):
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        write_atomic(folder / name, pem, mode=0o600)
    write_atomic(folder / "log.seed", authority.log_seed, mode=0o600)
    write_atomic(
        folder / "ca.cert.pem", authority.ca_certificate.public_bytes(Encoding.PEM), mode=0o600
    )


def load_authority(folder: Path) -> Authority:
    """Reads an instance's keys.

    Raises:
        UsageError: others can read the folder, or it does not hold an instance.
    """
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key
    from cryptography.x509 import load_pem_x509_certificate

    if not folder.is_dir() or folder.stat().st_mode & 0o077:
        raise _no_instance(folder, "no folder, or one that others can read")
    try:
        keys = [
            load_pem_private_key((folder / name).read_bytes(), password=None)
            for name in ("ca.key.pem", "ct.key.pem")
        ]
        certificate = load_pem_x509_certificate((folder / "ca.cert.pem").read_bytes())
        seed = (folder / "log.seed").read_bytes()
        log_key = SigningKey(seed)
    except (OSError, ValueError, TypeError) as error:
        raise _no_instance(folder, str(error)) from error
    ca_key, ct_key = keys
    if not isinstance(ca_key, EllipticCurvePrivateKey) or not isinstance(
        ct_key, EllipticCurvePrivateKey
    ):
        raise _no_instance(folder, "other kinds of keys")
    return Authority(ca_key, certificate, ct_key, log_key, seed)


def _no_instance(folder: Path, found: str) -> UsageError:
    return UsageError(
        "sigstore-instance-unusable",
        f"{folder}: expected a folder of mode 0700 with an instance's keys, found {found}",
        hint="name a new folder with --instance; one is made there",
    )


def _spki(public: EllipticCurvePublicKey) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    return public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _root(key: EllipticCurvePrivateKey, now: datetime) -> Certificate:
    from cryptography import x509
    from cryptography.hazmat.primitives.hashes import SHA384
    from cryptography.x509.oid import NameOID

    name = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "memtrial"),
            x509.NameAttribute(NameOID.COMMON_NAME, "memtrial-project-ca"),
        ]
    )
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=3650))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, SHA384())
    )


def _leaf(
    authority: Authority,
    public: EllipticCurvePublicKey,
    identity: str,
    issuer: str,
    now: datetime,
) -> CertificateBuilder:
    from cryptography import x509
    from cryptography.x509.oid import ExtendedKeyUsageOID

    root = authority.ca_certificate
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([]))
        .issuer_name(root.subject)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + timedelta(seconds=LEAF_LIFE_S))
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CODE_SIGNING]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.ca_key.public_key()),
            critical=False,
        )
        .add_extension(
            x509.SubjectAlternativeName([x509.UniformResourceIdentifier(identity)]), critical=True
        )
        .add_extension(
            x509.UnrecognizedExtension(x509.ObjectIdentifier(_ISSUER_OID), issuer.encode()),
            critical=False,
        )
    )


def _usage(*, signs_certificates: bool) -> KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _timestamp_list(authority: Authority, tbs: bytes, at_ms: int) -> bytes:
    """Returns a DER octet string with one signed certificate timestamp for a precertificate.

    RFC 6962 section 3.2: version, type, time, entry type precert, issuer key hash, TBS, extensions.
    """
    from cryptography.hazmat.primitives.asymmetric.ec import ECDSA
    from cryptography.hazmat.primitives.hashes import SHA256

    issuer_hash = hashlib.sha256(_spki(authority.ca_key.public_key())).digest()
    signed = (
        struct.pack("!BBQH", 0, 0, at_ms, 1)
        + issuer_hash
        + len(tbs).to_bytes(3, "big")
        + tbs
        + b"\0\0"
    )
    signature = authority.ct_key.sign(signed, ECDSA(SHA256()))
    log_id = hashlib.sha256(authority.ct_spki).digest()
    # Signature algorithm: SHA-256 (4) with ECDSA (3), RFC 5246 section 7.4.1.4.1.
    timestamp = b"\0" + log_id + struct.pack("!QH", at_ms, 0) + b"\x04\x03" + _sized(signature)
    inner = _sized(_sized(timestamp))
    length = bytes([len(inner)]) if len(inner) < 128 else bytes([0x81, len(inner)])
    return b"\x04" + length + inner


def _sized(data: bytes) -> bytes:
    return struct.pack("!H", len(data)) + data

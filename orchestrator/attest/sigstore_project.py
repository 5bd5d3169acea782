"""The project's own sigstore instance, offline: authority, log and trust configuration as plain values.

Log entries have the `dsse` 0.0.1 form with a signed entry timestamp, because clients of other languages
verify that form. The instance adds no independent witness: whoever runs the trials holds all its keys.
Formats: sigstore trusted root v0.1, client trust config v0.1, rekor `dsse` 0.0.1, C2SP checkpoint.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.core.canonical import canonical_bytes, sha256_hex
from orchestrator.core.certificates import (
    LEAF_LIFE_S,
    Authority,
    Leaf,
    create_authority,
    load_authority,
    save_authority,
)
from orchestrator.core.files import write_atomic
from orchestrator.core.merkle import MerkleTree, leaf_hash
from orchestrator.core.notes import Checkpoint, sign_checkpoint
from orchestrator.core.pae import pre_authentication_encoding
from orchestrator.model.bundle import SigstorePin
from orchestrator.model.statement import PAYLOAD_TYPE

LOG_NAME = "sigstore.memtrial.local"
PIN = SigstorePin(
    instance="project",
    identity="urn:memtrial:sealer",
    issuer="https://sealers.memtrial.local",
)
# Entries and keys of this instance count from here on; no instance is older than the project.
VALID_FROM = "2026-01-01T00:00:00Z"


@dataclass(slots=True)
class ProjectInstance:
    """An authority and its log. With a folder, keys and leaves outlive the process."""

    authority: Authority
    tree: MerkleTree = field(default_factory=MerkleTree)
    folder: Path | None = None
    leaf: Leaf | None = None

    @classmethod
    def for_once(cls, now_s: float) -> ProjectInstance:
        """Makes an instance whose keys are written nowhere."""
        return cls(create_authority(now_s))

    @classmethod
    def in_folder(cls, folder: Path, now_s: float) -> ProjectInstance:
        """Opens an instance's folder, or makes one where there is none."""
        if not folder.exists():
            save_authority(create_authority(now_s), folder)
        leaves = folder / "leaves"
        raw = leaves.read_bytes() if leaves.exists() else b""
        tree = MerkleTree(raw[i : i + 32] for i in range(0, len(raw), 32))
        return cls(load_authority(folder), tree, folder)

    @property
    def log_id(self) -> bytes:
        """The log's key id: SHA-256 over name, newline, algorithm byte and key (C2SP signed-note)."""
        return hashlib.sha256(
            LOG_NAME.encode() + b"\n\x01" + self.authority.log_key.public.raw
        ).digest()

    def sign(self, payload: bytes, *, now_s: float) -> bytes:
        """Returns a sigstore bundle (v0.3) of a statement, signed by a short-lived certificate and logged."""
        if self.leaf is None or self.leaf.until_s < now_s + LEAF_LIFE_S / 2:
            self.leaf = self.authority.issue(identity=PIN.identity, issuer=PIN.issuer, now_s=now_s)
        signature = self.leaf.sign(pre_authentication_encoding(PAYLOAD_TYPE, payload))
        envelope: dict[str, object] = {
            "payload": _b64(payload),
            "payloadType": PAYLOAD_TYPE,
            "signatures": [{"sig": _b64(signature)}],
        }
        entry = self._log(envelope, payload, signature, self.leaf, int(now_s))
        return canonical_bytes(
            {
                "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
                "verificationMaterial": {
                    "certificate": {"rawBytes": _b64(self.leaf.der)},
                    "tlogEntries": [entry],
                },
                "dsseEnvelope": envelope,
            }
        )

    def _log(
        self, envelope: dict[str, object], payload: bytes, signature: bytes, leaf: Leaf, at_s: int
    ) -> dict[str, object]:
        """Adds an entry to the log and returns it with its promise and proof."""
        body = canonical_bytes(
            {
                "apiVersion": "0.0.1",
                "kind": "dsse",
                "spec": {
                    "envelopeHash": {
                        "algorithm": "sha256",
                        "value": sha256_hex(canonical_bytes(envelope)),
                    },
                    "payloadHash": {"algorithm": "sha256", "value": sha256_hex(payload)},
                    "signatures": [{"signature": _b64(signature), "verifier": _b64(leaf.pem)}],
                },
            }
        )
        self.tree.append(leaf_hash(body))
        self._keep_leaves()
        index = self.tree.size - 1
        checkpoint = Checkpoint(LOG_NAME, self.tree.size, self.tree.root())
        promise = canonical_bytes(
            {
                "body": _b64(body),
                "integratedTime": at_s,
                "logID": self.log_id.hex(),
                "logIndex": index,
            }
        )
        return {
            "logIndex": str(index),
            "logId": {"keyId": _b64(self.log_id)},
            "kindVersion": {"kind": "dsse", "version": "0.0.1"},
            "integratedTime": str(at_s),
            "inclusionPromise": {
                "signedEntryTimestamp": _b64(self.authority.log_key.sign(promise))
            },
            "inclusionProof": {
                "logIndex": str(index),
                "rootHash": _b64(checkpoint.root),
                "treeSize": str(checkpoint.size),
                "hashes": [_b64(step) for step in self.tree.inclusion(index)],
                "checkpoint": {
                    "envelope": sign_checkpoint(checkpoint, self.authority.log_key).decode()
                },
            },
            "canonicalizedBody": _b64(body),
        }

    def _keep_leaves(self) -> None:
        if self.folder is not None:
            leaves = b"".join(self.tree.leaf(i) for i in range(self.tree.size))
            write_atomic(self.folder / "leaves", leaves, mode=0o600)

    def trust_config(self) -> bytes:
        """Returns the client trust configuration: trusted root, and a signing configuration that names nobody."""
        return canonical_bytes(
            {
                "mediaType": "application/vnd.dev.sigstore.clienttrustconfig.v0.1+json",
                "trustedRoot": self._trusted_root(),
                "signingConfig": {
                    "mediaType": "application/vnd.dev.sigstore.signingconfig.v0.2+json",
                    "caUrls": _service("https://ca.memtrial.invalid", 1),
                    "oidcUrls": [],
                    "rekorTlogUrls": _service(f"https://{LOG_NAME}", 1),
                    "tsaUrls": [],
                    "rekorTlogConfig": {"selector": "ANY"},
                    "tsaConfig": {"selector": "ANY"},
                },
            }
        )

    def _trusted_root(self) -> dict[str, object]:
        authority = self.authority
        return {
            "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
            "tlogs": [
                {
                    # The log is named by its host: other clients look for the checkpoint's name in it.
                    "baseUrl": f"https://{LOG_NAME}",
                    "hashAlgorithm": "SHA2_256",
                    "publicKey": _key(authority.log_key.public.spki, "PKIX_ED25519"),
                    "logId": {"keyId": _b64(self.log_id)},
                }
            ],
            "certificateAuthorities": [
                {
                    "subject": {"organization": "memtrial", "commonName": "memtrial-project-ca"},
                    "uri": "https://ca.memtrial.invalid",
                    "certChain": {"certificates": [{"rawBytes": _b64(authority.ca_der)}]},
                    "validFor": {"start": VALID_FROM},
                }
            ],
            "ctlogs": [
                {
                    "baseUrl": "https://ct.memtrial.invalid",
                    "hashAlgorithm": "SHA2_256",
                    "publicKey": _key(authority.ct_spki, "PKIX_ECDSA_P256_SHA_256"),
                    "logId": {"keyId": _b64(hashlib.sha256(authority.ct_spki).digest())},
                }
            ],
            "timestampAuthorities": [],
        }


def _key(spki: bytes, details: str) -> dict[str, object]:
    return {"rawBytes": _b64(spki), "keyDetails": details, "validFor": {"start": VALID_FROM}}


def _service(url: str, version: int) -> list[dict[str, object]]:
    return [
        {
            "url": url,
            "majorApiVersion": version,
            "operator": "memtrial",
            "validFor": {"start": VALID_FROM},
        }
    ]


def _b64(data: bytes) -> str:
    return base64.b64encode(data).decode()

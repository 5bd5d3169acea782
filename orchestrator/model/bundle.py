"""The documents that make a run's folder an evidence bundle, and what a verifier brings along."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from orchestrator.model.base import Closed, Document, Sha256, Slug, Text, UtcTime
from orchestrator.model.statement import Base64, KeyPin


class SigstorePin(Closed):
    """Whose certificates the sigstore bundles bear."""

    instance: Literal["project", "public"]
    identity: Text
    issuer: Text


class BundleCard(Document):
    """`bundle.json`: what kind of bundle this is. Everything else in it is rebuilt or hashed.

    `program_sha256` is the digest over memtrial's own source: words change with it, figures must not.
    `registry_sha256` is that of the registry of conditions that the plan chose its arms from.
    """

    format: Literal["memtrial-bundle-v1"] = "memtrial-bundle-v1"
    run_id: Slug
    memtrial_version: Text
    program_sha256: Sha256
    sealed_at: UtcTime
    key: KeyPin
    image_lock_sha256: Sha256 | None
    registry_sha256: Sha256
    sigstore: SigstorePin | None


class LinePin(Closed):
    """A line of the ledger by number and digest."""

    seq: int = Field(ge=0)
    line_sha256: Sha256


class TrialRecordCard(Document):
    """`records/N.json`: every line of the ledger that is about one trial. Subject of its statements."""

    run_id: Slug
    trial: Text
    plan_sha256: Sha256
    lines: tuple[LinePin, ...]
    sealed_sha256: Sha256 | None
    verdict_sha256: Sha256 | None


class InclusionProof(Closed):
    """That one line is a leaf of the checkpoint's tree (RFC 6962 audit path, nearest first)."""

    seq: int = Field(ge=0)
    leaf_sha256: Sha256
    path: tuple[Sha256, ...] = Field(max_length=64)


class TrialProofs(Document):
    """`proofs/N.json`: inclusion proofs of all lines of one trial."""

    trial: Text
    size: int = Field(gt=0)
    root_sha256: Sha256
    proofs: tuple[InclusionProof, ...]


class ConsistencyProof(Document):
    """`proofs/from-N-K.json`: that an earlier checkpoint's tree is a prefix of the present one."""

    old_size: int = Field(gt=0)
    old_root_sha256: Sha256
    size: int = Field(gt=0)
    root_sha256: Sha256
    path: tuple[Sha256, ...] = Field(max_length=64)


class WithheldFile(Closed):
    """A blob file that a public copy leaves out; its digest stays in SHA256SUMS."""

    path: Text
    sha256: Sha256


class Withheld(Document):
    """`withheld.json` of a public copy: what was left out on purpose."""

    files: tuple[WithheldFile, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _sorted_unique(self) -> Self:
        paths = [file.path for file in self.files]
        if paths != sorted(set(paths)):
            raise ValueError("files must be sorted by path and unique")
        return self


class TrustedKey(Closed):
    """A key that its owner published, with the time for which it counts."""

    keyid: Sha256
    public_key: Base64
    valid_from: UtcTime
    valid_until: UtcTime


class TrustedKeys(Document):
    """What `memtrial verify --root` reads: keys from outside the bundle."""

    keys: tuple[TrustedKey, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _unique(self) -> Self:
        for values in (
            [key.keyid for key in self.keys],
            [key.public_key for key in self.keys],
        ):
            if len(set(values)) != len(values):
                raise ValueError("one key must not be listed twice")
        return self

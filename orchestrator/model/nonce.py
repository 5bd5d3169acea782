"""The nonce book: which approvals were used, by which run. Each nonce has one line, and never another.

Reads and writes nothing.
"""

from __future__ import annotations

from pydantic import Field

from orchestrator.model.approval import LAST_SECOND, EpochSeconds, Nonce
from orchestrator.model.base import Document, Sha256, Slug


class NonceLine(Document):
    """One reservation. `prev_sha256` is the digest of the previous line's bytes; zeros in the first."""

    seq: int = Field(ge=0)
    prev_sha256: Sha256
    at_s: EpochSeconds
    nonce: Nonce
    approval_sha256: Sha256
    plan_sha256: Sha256
    run_id: Slug


class NonceHead(Document):
    """How far the book had come, kept in a file of its own: a book that is shorter was cut."""

    size: int = Field(ge=0)
    last_sha256: Sha256
    high_water_s: int = Field(ge=0, le=LAST_SECOND)

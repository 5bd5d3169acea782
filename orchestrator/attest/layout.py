"""Names of the files of a bundle, and the one form of SHA256SUMS. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from orchestrator.core.errors import DocumentError, MemtrialError
from orchestrator.core.files import safe_relative

CARD = "bundle.json"
PLAN = "plan.json"
LEDGER = "ledger.jsonl"
CHECKPOINT = "checkpoint"
REPORT = "report.json"
REPORT_TEXT = "report.txt"
APPROVAL = "approval.dsse.json"
ROLES = "approval.roles.json"
CLAIMS = "claims.json"
KEY = "keys/ledger.pub.pem"
SUMS = "SHA256SUMS"
SEAL = "SHA256SUMS.dsse.json"
SUMMARY = "attestations/run.intoto.jsonl"
GUIDE = "VERIFY.md"
SCRIPT = "verify.sh"
SBOM = "sbom.cdx.json"
MATERIALS = "materials.json"
TRUST_CONFIG = "trust/client-trust-config.json"
WITHHELD = "withheld.json"
CANARY = "host-canary"
BLOBS = "blobs/"
AUDITS = "audits/"
# What a seal writes and the next seal replaces. The record itself is never among them.
MADE_BY_SEAL = ("attestations/", AUDITS, "proofs/", "records/", "sigstore/", "trust/")

# Names of this form are safe at a glance; any other is judged part by part.
_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*(?:/[A-Za-z0-9_][A-Za-z0-9._-]*)*")
_LINE = re.compile(r"([0-9a-f]{64})  (\S+)")
MAX_FILES = 1_000_000


def record_name(seq: int) -> str:
    """Returns the name of a trial's record."""
    return f"records/{seq:04d}.json"


def proof_name(seq: int) -> str:
    """Returns the name of a trial's inclusion proofs."""
    return f"proofs/{seq:04d}.json"


def audit_name(seq: int) -> str:
    """Returns the name of a trial's memory audit."""
    return f"{AUDITS}{seq:04d}.json"


def attestation_name(seq: int) -> str:
    """Returns the name of a trial's statements, one envelope a line."""
    return f"attestations/{seq:04d}.intoto.jsonl"


def sigstore_name(attestation: str, line: int) -> str:
    """Returns the name of the sigstore bundle of one line of an attestation file."""
    stem = attestation.removeprefix("attestations/").removesuffix(".intoto.jsonl")
    return f"sigstore/{stem}.{line}.sigstore.json"


def earlier_name(size: int, keyid: str) -> tuple[str, str, str]:
    """Returns the names of an earlier checkpoint, its key, and the proof that leads on from it."""
    stem = f"{size:08d}-{keyid[:16]}"
    return f"checkpoints/{stem}", f"keys/{stem}.pub.pem", f"proofs/from-{stem}.json"


def render_sums(digests: Mapping[str, str]) -> bytes:
    """Returns SHA256SUMS as `sha256sum` reads it, sorted by name."""
    return "".join(f"{digests[name]}  {name}\n" for name in sorted(digests)).encode()


def parse_sums(data: bytes) -> dict[str, str]:
    """Parses SHA256SUMS; only the one form that `render_sums` writes is accepted.

    Raises:
        DocumentError: any other form, an unsafe name, or too many names.
    """
    try:
        lines = data.decode("ascii").split("\n")
    except UnicodeDecodeError:
        lines = []
    digests: dict[str, str] = {}
    for line in lines[:-1]:
        match = _LINE.fullmatch(line)
        if match is None or len(digests) >= MAX_FILES:
            raise _malformed()
        if not _PLAIN.fullmatch(match[2]):
            safe_relative(match[2], where=SUMS)
        digests[match[2]] = match[1]
    if not digests or render_sums(digests) != data:
        raise _malformed()
    return digests


def _malformed() -> MemtrialError:
    return DocumentError(
        "sums-malformed",
        f"{SUMS}: expected sorted lines of digest, two spaces and a plain name, found something else",
        hint="get the bundle again from its source",
    )

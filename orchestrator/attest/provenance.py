"""Verifies stored provenance of Python distributions (PEP 740) offline, against a pinned trust root.

The root is the caller's file or the one inside the installed sigstore distribution, and nothing else.
Reads no network.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from orchestrator.attest.trustroots import read_root, shipped_root
from orchestrator.core.errors import DocumentError, IntegrityError
from orchestrator.core.strictjson import parse_json
from orchestrator.model.statement import PAYLOAD_TYPE

if TYPE_CHECKING:
    from pypi_attestations import Publisher
    from sigstore.verify.policy import VerificationPolicy

PUBLISHER_UNKNOWN = "publisher-unknown"
# Issuer of the identities of a kind of publisher, and where its repositories lie.
_ISSUERS = {
    "GitHub": ("https://token.actions.githubusercontent.com", "https://github.com"),
    "GitLab": ("https://gitlab.com", "https://gitlab.com"),
}


@dataclass(frozen=True, slots=True)
class Attested:
    """What a verified attestation says: which file, and which repository's workflow published it."""

    filename: str
    sha256: str
    predicate_type: str
    publisher: str


def verify_provenance(
    data: bytes, *, where: str, trusted_root: bytes | None = None
) -> tuple[Attested, ...]:
    """Verifies every attestation of a provenance document.

    Args:
        data: the PEP 740 provenance JSON as stored beside the lock.
        where: name for the error text.
        trusted_root: sigstore trusted root JSON; None for the one that sigstore ships.

    Raises:
        DocumentError: not a provenance document, or a publisher of an unknown kind.
        IntegrityError: an attestation does not verify.
    """
    from pydantic import ValidationError
    from pypi_attestations import AttestationError, Provenance
    from sigstore.errors import Error
    from sigstore.verify import Verifier

    parse_json(data, where=where)
    try:
        provenance = Provenance.model_validate_json(data)
        verifier = Verifier(
            trusted_root=read_root(shipped_root() if trusted_root is None else trusted_root)
        )
        found: list[Attested] = []
        for bundle in provenance.attestation_bundles:
            policy, publisher = _policy(bundle.publisher, where)
            for attestation in bundle.attestations:
                kind, payload = verifier.verify_dsse(attestation.to_bundle(), policy)
                found.append(_statement(kind, payload, publisher, where))
    except ValidationError as error:
        raise DocumentError(
            "provenance-malformed",
            f"{where}: expected PEP 740 provenance, found {error.error_count()} problems",
            hint="fetch the provenance file again",
        ) from error
    except (Error, AttestationError, ValueError, TypeError) as error:
        raise IntegrityError(
            "provenance-refused",
            f"{where}: expected attestations that verify, found {type(error).__name__}: {str(error)[:200]}",
            hint="do not install this distribution before you know why",
        ) from error
    return tuple(found)


def _policy(publisher: Publisher, where: str) -> tuple[VerificationPolicy, str]:
    from pypi_attestations import GitHubPublisher, GitLabPublisher
    from sigstore.verify import policy

    if not isinstance(publisher, GitHubPublisher | GitLabPublisher):
        raise DocumentError(
            PUBLISHER_UNKNOWN,
            f"{where}: expected a publisher on {' or '.join(_ISSUERS)}, found one of kind {publisher.kind}",
            hint="check this distribution by hand; the hash pin holds all the same",
        )
    issuer, site = _ISSUERS[publisher.kind]
    repository = f"{site}/{publisher.repository}"
    return policy.AllOf(
        [policy.OIDCIssuer(issuer), policy.OIDCSourceRepositoryURI(repository)]
    ), repository


def _statement(kind: str, payload: bytes, publisher: str, where: str) -> Attested:
    value = parse_json(payload, where=where)
    statement = value if isinstance(value, dict) else {}
    subjects = statement.get("subject")
    subject = subjects[0] if isinstance(subjects, list) and len(subjects) == 1 else None
    digest = subject.get("digest") if isinstance(subject, dict) else None
    sha256 = digest.get("sha256") if isinstance(digest, dict) else None
    name = subject.get("name") if isinstance(subject, dict) else None
    predicate = statement.get("predicateType")
    if (
        kind != PAYLOAD_TYPE
        or not isinstance(sha256, str)
        or not isinstance(name, str)
        or not isinstance(predicate, str)
    ):
        raise DocumentError(
            "provenance-malformed",
            f"{where}: expected an in-toto statement about one file, found another",
            hint="fetch the provenance file again",
        )
    return Attested(name, sha256, predicate, publisher)

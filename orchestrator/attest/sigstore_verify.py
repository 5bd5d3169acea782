"""Verifies sigstore bundles of statements with the `sigstore` library, and checks what it leaves to its caller.

The library checks neither payload type nor subjects nor the end of a trust root's validity, and takes
duplicate JSON keys: those checks are ours. An own instance is verified under its own configuration alone,
the public one under the trusted root that the installed sigstore ships; nothing is fetched and no cache of
the user is read.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from orchestrator.attest.trustroots import read_root, root_at, shipped_root
from orchestrator.core.clock import utc_seconds
from orchestrator.core.errors import IntegrityError
from orchestrator.core.strictjson import parse_json
from orchestrator.model.bundle import SigstorePin
from orchestrator.model.statement import PAYLOAD_TYPE

if TYPE_CHECKING:
    from sigstore.models import TrustedRoot
    from sigstore.verify import Verifier


class StatementVerifier:
    """Verifies bundles under one trust configuration and one expected identity."""

    def __init__(self, trust_config: bytes | None, pin: SigstorePin) -> None:
        """Takes the configuration of an own instance; the public one is verified under what sigstore ships.

        Raises:
            IntegrityError: an own instance without configuration, or the public one with a bundled one.
        """
        from sigstore.verify import Verifier, policy

        self._policy = policy.Identity(identity=pin.identity, issuer=pin.issuer)
        self._ends_s: tuple[float, ...] = ()
        self._own: Verifier | None = None
        self._public: dict[bytes, Verifier] = {}
        if pin.instance == "project":
            self._ends_s = validity_ends_s(trust_config) if trust_config else ()
            self._own = Verifier(trusted_root=_project_root(trust_config))
        elif trust_config is not None:
            raise _refuse(
                "trust/client-trust-config.json",
                "no configuration beside bundles of the public instance",
                "one: whoever made this bundle would choose whom it is verified by",
            )

    def _verifier_at(self, issued: datetime) -> Verifier:
        """Returns the own instance's verifier, or the public one's with what counted at that time."""
        from sigstore.verify import Verifier

        if self._own is not None:
            return self._own
        root = root_at(shipped_root(), issued.astimezone(UTC).timestamp())
        if root not in self._public:
            self._public[root] = Verifier(trusted_root=read_root(root))
        return self._public[root]

    def verify(self, data: bytes, *, expected: bytes | None, where: str) -> bytes:
        """Verifies a bundle and returns its statement.

        Args:
            data: the bundle's JSON.
            expected: the statement that it must hold, or None to take any.
            where: name for the error text.

        Raises:
            IntegrityError: it does not verify, or holds another payload or type.
        """
        from sigstore.errors import Error
        from sigstore.models import Bundle

        parse_json(data, where=where)
        try:
            bundle = Bundle.from_json(data)
            issued = bundle.signing_certificate.not_valid_before_utc
            kind, payload = self._verifier_at(issued).verify_dsse(bundle, self._policy)
        # The library lets these through for keys and encodings that it does not expect.
        except (Error, ValueError, TypeError, KeyError, AttributeError) as error:
            raise _refuse(
                where, "a bundle that verifies", f"{type(error).__name__}: {error}"
            ) from error
        if kind != PAYLOAD_TYPE:
            raise _refuse(where, f"payload type {PAYLOAD_TYPE}", kind)
        if expected is not None and payload != expected:
            raise _refuse(where, "the statement that the record gives", "another")
        self._check_ends(issued, where)
        return payload

    def _check_ends(self, issued: datetime, where: str) -> None:
        for end_s in self._ends_s:
            if issued.astimezone(UTC).timestamp() >= end_s:
                raise _refuse(
                    where, "a certificate from before the trust root's end", issued.isoformat()
                )


def validity_ends_s(trust_config: bytes) -> tuple[float, ...]:
    """Returns the ends of validity of every CA, log and timestamp log that a configuration names.

    Raises:
        DocumentError: not strict JSON.
        IntegrityError: an end that is no time.
    """
    ends: list[float] = []
    waiting: list[object] = [parse_json(trust_config, where="client trust configuration")]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            span = value.get("validFor")
            if isinstance(span, dict) and isinstance(span.get("end"), str):
                ends.append(_end_s(span["end"]))
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
    return tuple(ends)


def _end_s(text: str) -> float:
    try:
        return utc_seconds(text)
    except ValueError as error:
        raise _refuse(
            "client trust configuration", "a time as the end of validity", text
        ) from error


def _project_root(trust_config: bytes | None) -> TrustedRoot:
    from sigstore.errors import Error
    from sigstore.models import ClientTrustConfig

    if trust_config is None:
        raise _refuse("trust/client-trust-config.json", "the instance's configuration", "none")
    try:
        return ClientTrustConfig.from_json(trust_config.decode()).trusted_root
    except (Error, ValueError) as error:
        raise _refuse(
            "trust/client-trust-config.json", "a trust configuration", str(error)
        ) from error


def _refuse(where: str, expected: str, found: str) -> IntegrityError:
    return IntegrityError(
        "sigstore-refused",
        f"{where}: expected {expected}, found {found[:300]}",
        hint="get the bundle again from its source; the Ed25519 statements are verified apart",
    )

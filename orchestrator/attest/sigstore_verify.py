"""Verifies sigstore bundles of statements with the `sigstore` library, and checks what it leaves to its caller.

The library checks neither payload type nor subjects nor the end of a trust root's validity, and takes
duplicate JSON keys: those checks are ours. An own instance is verified under its own configuration alone;
nothing is fetched and no cache of the user is read.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from orchestrator.core.clock import utc_seconds
from orchestrator.core.errors import EnvironmentMissing, IntegrityError
from orchestrator.core.strictjson import parse_json
from orchestrator.model.bundle import SigstorePin
from orchestrator.model.statement import PAYLOAD_TYPE

if TYPE_CHECKING:
    from sigstore.models import ClientTrustConfig


class StatementVerifier:
    """Verifies bundles under one trust configuration and one expected identity."""

    def __init__(self, trust_config: bytes | None, pin: SigstorePin) -> None:
        from sigstore.verify import Verifier, policy

        self._ends_s = validity_ends_s(trust_config) if trust_config else ()
        self._verifier = Verifier(trusted_root=_config(trust_config, pin).trusted_root)
        self._policy = policy.Identity(identity=pin.identity, issuer=pin.issuer)

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
            kind, payload = self._verifier.verify_dsse(bundle, self._policy)
            issued = bundle.signing_certificate.not_valid_before_utc
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


def _config(trust_config: bytes | None, pin: SigstorePin) -> ClientTrustConfig:
    from sigstore.errors import Error
    from sigstore.models import ClientTrustConfig

    if pin.instance == "project" and trust_config is None:
        raise _refuse("trust/client-trust-config.json", "the instance's configuration", "none")
    try:
        if trust_config is not None:
            return ClientTrustConfig.from_json(trust_config.decode())
        return ClientTrustConfig.production()
    except ValueError as error:
        raise _refuse(
            "trust/client-trust-config.json", "a trust configuration", str(error)
        ) from error
    except (Error, OSError) as error:
        raise EnvironmentMissing(
            "sigstore-public-unavailable",
            f"expected the public instance's trust root, found {type(error).__name__}: {error}",
            hint="verify with network, or verify the Ed25519 statements alone",
        ) from error


def _refuse(where: str, expected: str, found: str) -> IntegrityError:
    return IntegrityError(
        "sigstore-refused",
        f"{where}: expected {expected}, found {found[:300]}",
        hint="get the bundle again from its source; the Ed25519 statements are verified apart",
    )

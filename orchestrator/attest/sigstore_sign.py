"""Makes sigstore bundles of statements: by the project's own offline instance, or by the public one.

The own instance needs no heavy library. The public one needs the extra, network and an identity that the
operator has; it is only asked when the operator says so.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from orchestrator.attest.sigstore_project import PIN, ProjectInstance
from orchestrator.core.errors import EnvironmentMissing
from orchestrator.model.bundle import SigstorePin

if TYPE_CHECKING:
    from sigstore.oidc import IdentityToken
    from sigstore.sign import SigningContext


class ProjectSigner:
    """Signs by the project's own instance."""

    def __init__(self, instance: ProjectInstance) -> None:
        self._instance = instance

    @property
    def pin(self) -> SigstorePin:
        """Whose certificates the bundles bear."""
        return PIN

    def sign(self, payload: bytes) -> bytes:
        """Returns the bundle of a statement."""
        return self._instance.sign(payload, now_s=time.time())

    def trust_config(self) -> bytes | None:
        """Returns the configuration that verifies the bundles."""
        return self._instance.trust_config()


class PublicSigner:
    """Signs by the public instance, with the identity of the environment (for example a CI job's)."""

    def __init__(self, context: SigningContext, token: IdentityToken) -> None:
        self._context = context
        self._token = token

    @property
    def pin(self) -> SigstorePin:
        """Whose certificates the bundles bear."""
        return SigstorePin(
            instance="public", identity=self._token.identity, issuer=self._token.federated_issuer
        )

    def sign(self, payload: bytes) -> bytes:
        """Returns the bundle of a statement."""
        from sigstore.dsse import Statement

        with self._context.signer(self._token) as signer:
            return signer.sign_dsse(Statement(payload)).to_json().encode()

    def trust_config(self) -> bytes | None:
        """The public instance's trust root is not ours to hand out."""
        return None


def signer_of(
    instance: Literal["project", "public"], folder: Path | None
) -> ProjectSigner | PublicSigner:
    """Returns the signer that the operator asked for.

    Raises:
        EnvironmentMissing: the public instance needs the extra, network and an identity.
        UsageError: the own instance's folder cannot be used.
    """
    if instance == "project":
        now_s = time.time()
        return ProjectSigner(
            ProjectInstance.in_folder(folder, now_s) if folder else ProjectInstance.for_once(now_s)
        )
    try:
        from sigstore.errors import Error
        from sigstore.models import ClientTrustConfig
        from sigstore.oidc import IdentityError, IdentityToken, detect_credential
        from sigstore.sign import SigningContext
    except ImportError as error:
        raise _not_public("the extra is not installed") from error
    try:
        raw = detect_credential()
        if raw is None:
            raise _not_public("no identity in this environment")
        context = SigningContext.from_trust_config(ClientTrustConfig.production())
        return PublicSigner(context, IdentityToken(raw))
    except (Error, IdentityError, OSError) as error:
        raise _not_public(f"{type(error).__name__}: {error}") from error


def _not_public(found: str) -> EnvironmentMissing:
    return EnvironmentMissing(
        "sigstore-public-unavailable",
        f"expected the public sigstore instance and an identity, found: {found}",
        hint="pip install 'memtrial[sigstore]' and run it where an identity is at hand, or use --sigstore project",
    )

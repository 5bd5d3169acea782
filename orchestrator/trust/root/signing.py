"""Our keys as TUF wants them: named by the SHA-256 of their SubjectPublicKeyInfo, as everywhere else.

Pure adapters; private keys stay inside core.keys.
"""

from __future__ import annotations

from securesystemslib.signer import Key, SecretsHandler, Signature, Signer, SSlibKey

from orchestrator.core.errors import UsageError
from orchestrator.core.keys import PublicKey, SigningKey


def tuf_key(key: PublicKey) -> SSlibKey:
    """Returns a key as TUF metadata holds it."""
    return SSlibKey(key.keyid, "ed25519", "ed25519", {"public": key.raw.hex()})


class TufSigner(Signer):
    """Signs TUF metadata with one of our keys."""

    def __init__(self, key: SigningKey) -> None:
        self._key = key
        self._public = tuf_key(key.public)

    @property
    def public_key(self) -> Key:
        """The key that verifies."""
        return self._public

    @classmethod
    def from_priv_key_uri(
        cls, priv_key_uri: str, public_key: Key, secrets_handler: SecretsHandler | None = None
    ) -> TufSigner:
        """Refuses: keys are never named by an address.

        Raises:
            UsageError: always.
        """
        del priv_key_uri, public_key, secrets_handler
        raise UsageError(
            "key-by-address", "expected a key file, found an address", hint="name the key's file"
        )

    def sign(self, payload: bytes) -> Signature:
        """Returns the signature over the canonical bytes of a role's metadata."""
        return Signature(self._key.public.keyid, self._key.sign(payload).hex())

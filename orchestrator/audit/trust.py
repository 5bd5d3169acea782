"""Decides whom a verifier trusts: a bundle's key against keys and times from outside the bundle. Pure."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass

from orchestrator.core.clock import utc_seconds
from orchestrator.core.errors import DocumentError, IntegrityError, Negative
from orchestrator.core.keys import PublicKey
from orchestrator.core.notes import parse_checkpoint
from orchestrator.ledger.chain import LedgerContent
from orchestrator.model.bundle import BundleCard, TrustedKeys

MAX_CLOCK_SKEW_S = 300


@dataclass(frozen=True, slots=True)
class Trust:
    """What the verifier brings along. `now` is the verifier's time; all else comes from outside.

    `sigstore_identity` is whose certificates bundles of the public instance must bear: identity, issuer.
    `allow_withheld`: the verifier knows that this copy leaves files out. Its list of them bears no signature.
    `approvers` are key ids of those who may approve a live run.
    """

    now: str
    keyid: str | None = None
    keys: TrustedKeys | None = None
    remembered: tuple[tuple[str, bytes], ...] = ()
    allow_withheld: bool = False
    sigstore_identity: tuple[str, str] | None = None
    approvers: frozenset[str] = frozenset()

    @property
    def authenticates(self) -> bool:
        """Whether a key from outside was given at all."""
        return self.keyid is not None or self.keys is not None


def check_signer(card: BundleCard, key: PublicKey, trust: Trust) -> None:
    """Checks the key that a bundle names.

    Raises:
        IntegrityError: the key file is not the key that the bundle names.
        Negative: it is not the expected key, it was not valid then, or the time is in the future.
    """
    if card.key.keyid != key.keyid:
        raise IntegrityError(
            "key-changed",
            f"expected key {card.key.keyid[:16]} as bundle.json says, found {key.keyid[:16]}",
            hint="get the bundle again from its source",
        )
    if trust.keyid is not None and trust.keyid != key.keyid:
        raise _not_trusted(trust.keyid, key.keyid)
    if trust.keys is not None:
        _check_listed(card, key, trust.keys)
    if utc_seconds(card.sealed_at) > utc_seconds(trust.now) + MAX_CLOCK_SKEW_S:
        raise Negative(
            "clock-skew",
            f"expected a seal from before {trust.now}, found one of {card.sealed_at}",
            hint="check this machine's clock; if it is right, the sealing machine's was not",
        )


def _check_listed(card: BundleCard, key: PublicKey, keys: TrustedKeys) -> None:
    for trusted in keys.keys:
        if trusted.keyid != key.keyid:
            continue
        if _raw(trusted.public_key) != key.raw:
            raise DocumentError(
                "trusted-keys-contradict",
                f"expected the public key of {key.keyid[:16]} beside this key id, found another key",
                hint="take the public key again from its owner: a key id is the SHA-256 of the key itself",
            )
        begin, end = utc_seconds(trusted.valid_from), utc_seconds(trusted.valid_until)
        if not begin <= utc_seconds(card.sealed_at) < end:
            raise Negative(
                "key-not-valid-then",
                f"expected a seal between {trusted.valid_from} and {trusted.valid_until}, found one of {card.sealed_at}",
                hint="ask the key's owner whether this seal is theirs",
            )
        return
    raise _not_trusted(", ".join(trusted.keyid for trusted in keys.keys), key.keyid)


def _raw(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise DocumentError(
            "trusted-keys-malformed",
            f"expected 32 bytes in base64 as public_key, found {text[:16]!r}",
            hint="compare the file with schemas/trusted-keys.json",
        ) from error


def _not_trusted(expected: str, found: str) -> Negative:
    return Negative(
        "key-not-trusted",
        f"expected a seal by key {expected}, found one by {found}",
        hint="someone else signed this bundle: get it from whoever published that key id",
    )


def check_remembered(content: LedgerContent, origin: str, name: str, data: bytes) -> None:
    """Checks that a ledger continues a checkpoint that the verifier kept.

    Raises:
        DocumentError: the kept file is no checkpoint.
        IntegrityError: the ledger is shorter, or another one from some line on.
    """
    kept = parse_checkpoint(data, where=name).checkpoint
    if kept.origin != origin:
        raise IntegrityError(
            "checkpoint-foreign",
            f"{name}: expected a checkpoint of {origin}, found one of {kept.origin}",
            hint="give the checkpoint that you kept of this very run",
        )
    if kept.size > content.tree.size:
        raise IntegrityError(
            "ledger-truncated",
            f"{name}: expected at least {kept.size} records, found {content.tree.size}",
            hint="records were cut off after that checkpoint was published: do not rely on this bundle",
        )
    if content.tree.root(kept.size) != kept.root:
        raise IntegrityError(
            "ledger-forked",
            f"{name}: expected the first {kept.size} records to give root {kept.root.hex()[:16]}, found another",
            hint="this is another history than the published one: do not rely on this bundle",
        )

"""The outer checks of a bundle, in order: plain files, the signer, the seal, every file's digest.

Nothing inside a bundle is interpreted before these hold, but its card and its key.
"""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.attest import layout
from orchestrator.attest.dsse import open_envelope
from orchestrator.attest.statements import seal_statement
from orchestrator.audit.trust import Trust, check_signer
from orchestrator.audit.view import BundleView, SealedView
from orchestrator.core.canonical import sha256_hex
from orchestrator.core.errors import DocumentError, IntegrityError, Negative
from orchestrator.core.keys import PublicKey
from orchestrator.core.strictjson import parse_json
from orchestrator.model.bundle import BundleCard, Withheld

REQUIRED = (
    layout.CARD,
    layout.KEY,
    layout.SUMS,
    layout.SEAL,
    layout.PLAN,
    layout.LEDGER,
    layout.CHECKPOINT,
    layout.REPORT,
    layout.SUMMARY,
    layout.GUIDE,
    layout.SCRIPT,
    layout.SBOM,
)


@dataclass(frozen=True, slots=True)
class Signed:
    """A bundle whose signer is known, and whose contents are not yet checked."""

    view: BundleView
    names: tuple[str, ...]
    card: BundleCard
    key: PublicKey


@dataclass(frozen=True, slots=True)
class Opened:
    """A bundle whose every byte is covered by its seal."""

    card: BundleCard
    key: PublicKey
    files: SealedView


def plain_names(view: BundleView) -> tuple[str, ...]:
    """Returns the names of a bundle's files.

    Raises:
        IntegrityError: something else than plain files, or a part of every bundle is missing.
    """
    names = view.names()
    absent = [name for name in REQUIRED if name not in set(names)]
    if absent:
        raise IntegrityError(
            "bundle-not-whole" if layout.LEDGER in names else "bundle-foreign",
            f"expected {', '.join(absent)} in the bundle, found none",
            hint="seal the run with `memtrial seal`, or get the bundle again from its source",
        )
    return names


def read_signer(view: BundleView, names: tuple[str, ...], trust: Trust) -> Signed:
    """Reads card and key and decides whether the key is a trusted one.

    Raises:
        DocumentError: a bundle of an unknown format, or a malformed key.
        IntegrityError: the key is weak, or not the one that the bundle names.
        Negative: the key is not trusted.
    """
    data = view.read(layout.CARD)
    value = parse_json(data, where=layout.CARD)
    known = (1, "memtrial-bundle-v1")
    found = (value.get("schema_version"), value.get("format")) if isinstance(value, dict) else None
    if found != known:
        raise DocumentError(
            "bundle-format-unknown",
            f"{layout.CARD}: expected schema_version and format {known}, found {found}",
            hint="verify it with the memtrial that made it, or with a newer one",
        )
    card = BundleCard.parse_canonical(data, where=layout.CARD)
    key = PublicKey.parse_pem(view.read(layout.KEY), where=layout.KEY)
    check_signer(card, key, trust)
    return Signed(view, names, card, key)


def read_seal(signed: Signed) -> dict[str, str]:
    """Verifies the seal and returns the digests that it covers.

    Raises:
        DocumentError: list or envelope are malformed.
        IntegrityError: the seal is not this key's over this list.
    """
    sums = signed.view.read(layout.SUMS)
    envelope = signed.view.read(layout.SEAL)
    payload = open_envelope(envelope.removesuffix(b"\n"), signed.key, where=layout.SEAL)
    digests = layout.parse_sums(sums)
    expected = seal_statement(layout.SUMS, sha256_hex(sums), len(digests), signed.card)
    if payload != expected or not envelope.endswith(b"\n"):
        raise IntegrityError(
            "seal-of-another-list",
            f"{layout.SEAL}: expected a seal over {layout.SUMS} as it is, found one over something else",
            hint="get the bundle again from its source",
        )
    return digests


def check_contents(signed: Signed, digests: dict[str, str], *, allow_withheld: bool) -> Opened:
    """Compares every file with its digest; no file may be missing, added or changed.

    Raises:
        IntegrityError: one is, and was not withheld on purpose.
        Negative: some are withheld, and the verifier did not say that this is known.
    """
    listed, present = set(digests), set(signed.names) - {layout.SUMS, layout.SEAL}
    absent = listed - present
    withheld = _withheld(signed, digests, absent)
    if withheld:
        present.discard(layout.WITHHELD)
    if withheld and not allow_withheld:
        raise Negative(
            "withheld-not-accepted",
            f"expected every file of {layout.SUMS}, found {len(withheld)} withheld by a list that bears no signature: anybody can have taken them out",
            hint="if this is a public copy by its publisher's word, add --allow-withheld; what is left is then verified in part",
        )
    if present - listed or absent - withheld:
        odd = sorted(present - listed)[:3], sorted(absent - withheld)[:3]
        raise IntegrityError(
            "files-added-or-missing",
            f"expected the {len(listed)} files of {layout.SUMS}, found {len(present - listed)} added {odd[0]} and {len(absent - withheld)} missing {odd[1]}",
            hint="get the bundle again from its source",
        )
    files = SealedView(signed.view, digests, frozenset(withheld))
    for name in files.names():
        files.read(name)
    return Opened(signed.card, signed.key, files)


def _withheld(signed: Signed, digests: dict[str, str], absent: set[str]) -> set[str]:
    """Returns what a public copy says it left out: blobs only, each with its digest, each absent."""
    if layout.WITHHELD not in signed.names or layout.WITHHELD in digests:
        return set()
    told = Withheld.parse_canonical(signed.view.read(layout.WITHHELD), where=layout.WITHHELD)
    for file in told.files:
        if (
            not file.path.startswith(layout.BLOBS)
            or digests.get(file.path) != file.sha256
            or file.path not in absent
        ):
            raise IntegrityError(
                "withheld-wrongly",
                f"{layout.WITHHELD}: expected absent blobs with their digests, found {file.path}",
                hint="get the public copy again from its source",
            )
    return {file.path for file in told.files}

"""Checks the sigstore bundles of a run, where there are any and the heavy extra is installed."""

from __future__ import annotations

from importlib.util import find_spec

from orchestrator.attest import layout
from orchestrator.attest.sigstore_project import PIN
from orchestrator.audit.opening import Opened
from orchestrator.audit.recheck import Found
from orchestrator.audit.trust import Trust
from orchestrator.core.errors import IntegrityError, Negative
from orchestrator.model.bundle import SigstorePin
from orchestrator.pipeline.dossier import Composition

_OURS = ("sigstore/", "trust/")


def check_sigstore(opened: Opened, composed: Composition, trust: Trust) -> Found:
    """Verifies each sigstore bundle under its instance's root and compares its statement.

    The identity of the public instance's bundles is this bundle's own choice, unless the verifier brings
    one along.

    Raises:
        IntegrityError: a bundle is missing, does not verify, or holds another statement.
        Negative: the certificates are not of the identity that the verifier expects.
    """
    present = {name for name in opened.files.names() if name.startswith(_OURS)}
    pin = opened.card.sigstore
    _check_identity(pin, trust)
    if pin is None and not present:
        return Found(0, "the run has none")
    lines = {
        layout.sigstore_name(name, number): payload
        for name, payloads in composed.payloads.items()
        for number, payload in enumerate(payloads)
    }
    config = {layout.TRUST_CONFIG} if pin is not None and pin.instance == "project" else set()
    if pin is None or present != set(lines) | config:
        raise IntegrityError(
            "sigstore-unexpected",
            f"expected one sigstore bundle per statement, and a trust configuration beside those of an own instance alone, found {len(present)} files for {len(lines)}",
            hint="get the bundle again from its source",
        )
    if find_spec("sigstore") is None:
        return Found(0, "install the extra: pip install 'memtrial[sigstore]'", whole=False)
    from orchestrator.attest.sigstore_verify import StatementVerifier

    verifier = StatementVerifier(opened.files.optional(layout.TRUST_CONFIG), pin)
    for name, payload in lines.items():
        verifier.verify(opened.files.read(name), expected=payload, where=name)
    if pin.instance == "project":
        return Found(len(lines), "project-owned instance: no independent witness")
    told = f"public instance, identity {pin.identity} by {pin.issuer}"
    if trust.sigstore_identity is None:
        told += ", the bundle's own choice: no --sigstore-identity given"
    return Found(len(lines), told, whole=trust.sigstore_identity is not None)


def _check_identity(pin: SigstorePin | None, trust: Trust) -> None:
    if pin is not None and pin.instance == "project" and pin != PIN:
        raise IntegrityError(
            "sigstore-unexpected",
            f"expected identity {PIN.identity} of the project's own instance, found {pin.identity}",
            hint="get the bundle again from its source",
        )
    wanted = trust.sigstore_identity
    if wanted is None:
        return
    public = pin is not None and pin.instance == "public"
    found = (pin.identity, pin.issuer) if pin is not None and public else None
    if found != wanted:
        raise Negative(
            "sigstore-identity-differs",
            f"expected bundles of the public instance by {wanted[0]} of {wanted[1]}, found {' of '.join(found) if found else 'none'}",
            hint="someone else signed the sigstore bundles, or nobody did: ask the publisher",
        )

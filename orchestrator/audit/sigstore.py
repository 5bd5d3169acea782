"""Checks the sigstore bundles of a run, where there are any and the heavy extra is installed."""

from __future__ import annotations

from importlib.util import find_spec

from orchestrator.attest import layout
from orchestrator.audit.opening import Opened
from orchestrator.audit.recheck import Found
from orchestrator.core.errors import IntegrityError
from orchestrator.pipeline.dossier import Composition


def check_sigstore(opened: Opened, composed: Composition) -> Found:
    """Verifies each sigstore bundle under its trust configuration and compares its statement.

    Raises:
        IntegrityError: a bundle is missing, does not verify, or holds another statement.
    """
    present = {name for name in opened.files.names() if name.startswith("sigstore/")}
    pin = opened.card.sigstore
    if pin is None and not present:
        return Found(0, "the run has none")
    lines = {
        layout.sigstore_name(name, number): payload
        for name, payloads in composed.payloads.items()
        for number, payload in enumerate(payloads)
    }
    if pin is None or present != set(lines):
        raise IntegrityError(
            "sigstore-unexpected",
            f"expected one sigstore bundle per statement, found {len(present)} for {len(lines)}",
            hint="get the bundle again from its source",
        )
    if find_spec("sigstore") is None:
        return Found(0, "install the extra: pip install 'memtrial[sigstore]'", whole=False)
    from orchestrator.attest.sigstore_verify import StatementVerifier

    verifier = StatementVerifier(opened.files.optional(layout.TRUST_CONFIG), pin)
    for name, payload in lines.items():
        verifier.verify(opened.files.read(name), expected=payload, where=name)
    instance = "project-owned: no independent witness" if pin.instance == "project" else "public"
    return Found(len(lines), f"instance {instance}")

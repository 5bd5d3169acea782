"""Checks, from a bundle alone, that a live run cites the approval that it began under, and that it was signed.

Reads plan, ledger, approval and roles of a bundle. Whether those roles are the right ones is for the reader,
who gets the key ids from outside; the gate's other checks were made when the run began.
"""

from __future__ import annotations

from orchestrator.attest import layout
from orchestrator.audit.opening import Opened
from orchestrator.audit.recheck import Found
from orchestrator.core.canonical import sha256_hex
from orchestrator.core.errors import ApprovalRefused, Negative
from orchestrator.model.approval import LOCAL_TYPE, LocalApproval
from orchestrator.model.gateway import LivePin
from orchestrator.pipeline.dossier import Dossier
from orchestrator.trust.envelope import open_signed
from orchestrator.trust.roles import load_roles, role_of
from orchestrator.trust.strict import read_signed


def check_approval(opened: Opened, dossier: Dossier) -> Found:
    """Says whether the run needed an approval, has one, and kept to it.

    Raises:
        Negative: missing, not the one that the ledger names, not signed, or of another plan.
    """
    data = opened.files.optional(layout.APPROVAL)
    live = isinstance(dossier.plan.gateway, LivePin)
    if data is None and (live or dossier.plan.phase != "local"):
        raise Negative(
            "approval-missing",
            f"expected {layout.APPROVAL} for a live plan of phase {dossier.plan.phase}, found none",
            hint="a paid run without an approval is not to be relied on",
        )
    if data is None:
        return Found(0, "no live model: none is needed")
    entry = dossier.run.approved
    if entry is None or entry.approval_sha256 != sha256_hex(data):
        raise _differs("the approval that the ledger names", sha256_hex(data)[:16])
    if dossier.plan.phase != "local":
        return Found(0, "signatures of this phase are checked by the gate", whole=False)
    return _local(opened, dossier, data)


def _local(opened: Opened, dossier: Dossier, data: bytes) -> Found:
    roles_data = opened.files.optional(layout.ROLES)
    if roles_data is None:
        raise _differs(f"{layout.ROLES} beside a local approval", "none")
    try:
        role = role_of(load_roles(roles_data, where=layout.ROLES), "operator", where=layout.ROLES)
        found = open_signed(data, role, payload_type=LOCAL_TYPE, where=layout.APPROVAL)
        read_signed(found.payload, where=layout.APPROVAL)
    except ApprovalRefused as error:
        raise Negative(error.reference, error.message, hint=error.hint) from error
    approval = LocalApproval.parse_canonical(found.payload, where=layout.APPROVAL)
    if approval.root_sha256 != sha256_hex(roles_data):
        raise _differs("the roles that the approval names", sha256_hex(roles_data)[:16])
    if approval.plan_sha256 != dossier.plan_sha256:
        raise _differs(f"an approval of plan {dossier.plan_sha256[:16]}", approval.plan_sha256[:16])
    return Found(
        len(found.signers),
        f"directional: {approval.approval_id} by {found.signers[0][:16]}, at most {approval.max_usd_micros} micro-USD",
    )


def _differs(expected: str, found: str) -> Negative:
    return Negative(
        "approval-differs",
        f"{layout.APPROVAL}: expected {expected}, found {found}",
        hint="the run was not made under this approval: do not rely on it",
    )

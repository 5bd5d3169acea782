"""Steps 6 to 9: roles, the envelope's signatures, the document inside, and the commit that it names.

Nothing of the payload is read before enough approvers signed it.
"""

from __future__ import annotations

from pydantic import ValidationError

from orchestrator.core.canonical import sha256_hex
from orchestrator.model.approval import APPROVAL_TYPE, GOVERNED
from orchestrator.trust.envelope import open_signed
from orchestrator.trust.gate.asked import State, known, names_root, pin_of, refuse, told
from orchestrator.trust.repository import check_commit_name
from orchestrator.trust.roles import check_people, load_roles, role_of
from orchestrator.trust.strict import read_signed


def check_roles(state: State) -> None:
    """Step 6."""
    root, config = known(state.root), known(state.config)
    state.roles = load_roles(root.roles_data, where="roles.v1.json")
    document = state.roles.document
    if document.kind not in {"organisation", "rehearsal"} or document.name != config.name:
        raise refuse(
            "root-of-another-kind",
            f"the roles of {config.name}",
            f"those of the {document.kind} {document.name}",
            hint="a demonstration can approve nothing: make a root of your own with `memtrial trust init`",
        )
    check_people(state.roles, owners=root.owners, curators=root.curators)


def check_signatures(state: State) -> None:
    """Step 7."""
    root, roles = known(state.root), known(state.roles)
    if state.asked.approval_id in root.notes:
        raise refuse(
            "approval-withdrawn",
            f"approval {state.asked.approval_id} among those that hold",
            "a curator's note that it was withdrawn; it never holds again, whatever is listed",
            hint="see `memtrial approve status` for why; a new run needs a new proposal under another --id",
        )
    path = f"approvals/{state.asked.approval_id}.dsse.json"
    envelope = root.approvals.get(path)
    if envelope is None:
        raise refuse(
            "approval-not-listed",
            f"approval {state.asked.approval_id} among those that hold",
            "none of that name: it was never published",
            hint="see `memtrial approve status`",
        )
    role = role_of(roles, "approver", where="roles")
    found = open_signed(envelope, role, payload_type=APPROVAL_TYPE, where="approval")
    state.envelope, state.payload, state.signers = envelope, found.payload, found.signers
    state.digests["approval"] = sha256_hex(envelope)


def read_document(state: State) -> None:
    """Step 8."""
    read_signed(state.payload, where="approval")
    try:
        state.approval = GOVERNED.validate_json(state.payload)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise refuse(
            "approval-invalid", "an approval", f"{place}: {first['msg'].lower()}"
        ) from error
    if state.approval.canonical() != state.payload:
        raise refuse("json-not-canonical", "the document's own bytes", "fields left out")
    if state.approval.approval_id != state.asked.approval_id:
        raise refuse(
            "approval-of-another-name", state.asked.approval_id, state.approval.approval_id
        )


def check_commit(state: State) -> None:
    """Step 9: the repository, the trust root and the commit that the signers meant."""
    approval, config = state.approved(), known(state.config)
    check_root_meant(state)
    named = (approval.repository, approval.default_branch)
    if named != (config.repository, config.default_branch):
        raise refuse(
            "approval-of-another-repository",
            f"{config.repository} {config.default_branch}",
            " ".join(named),
        )
    check_commit_name(approval.approved_commit)
    if not known(state.repository).is_ancestor(approval.approved_commit, state.head):
        raise refuse(
            "commit-not-in-history",
            f"the approved commit {approval.approved_commit[:12]} in the history of HEAD",
            f"{state.head[:12]}, which does not have it",
        )


def check_root_meant(state: State) -> None:
    """Refuses an approval that was signed under another trust root (in step 9, and before each attempt).

    Raises:
        ApprovalRefused: it was.
    """
    approval, root = state.approved(), known(state.root)
    if not names_root(approval, root):
        raise refuse("root-not-the-approved-one", told(approval.root), told(pin_of(root)))

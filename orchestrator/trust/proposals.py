"""Proposals on their way to an approval: write one, read it, sign it, see how far each has come.

Reads and writes `approvals/proposals` and `approvals/signed` of a repository, where anybody with commit
access may have put anything: nothing is shown as signed, and no signature added, before the others hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from orchestrator.core.canonical import sha256_hex
from orchestrator.core.errors import ApprovalRefused, DocumentError, MemtrialError, UsageError
from orchestrator.core.files import read_confined, write_atomic
from orchestrator.core.keys import SigningKey
from orchestrator.core.pae import from_base64
from orchestrator.model.approval import APPROVAL_TYPE, GOVERNED, Withdrawal
from orchestrator.model.base import Slug
from orchestrator.model.dispatch import MAX_PLAN_BYTES
from orchestrator.model.plan import Plan
from orchestrator.trust.ceremony import SIGNED, current
from orchestrator.trust.envelope import (
    MAX_ENVELOPE_BYTES,
    add_signature,
    open_signed,
    open_started,
    parse_envelope,
    sign_new,
)
from orchestrator.trust.gate.asked import Governed, names_root, pin_of, told
from orchestrator.trust.roles import Role, TrustedRoles, load_roles, role_of
from orchestrator.trust.root.client import TrustRoot
from orchestrator.trust.root.make import APPROVALS
from orchestrator.trust.strict import MAX_SIGNED_BYTES, read_signed

PROPOSALS = "proposals"
# The plans of proposals, by digest: signers must see what they sign.
PLANS = "plans"
_ID: TypeAdapter[str] = TypeAdapter(Slug)
_REMOVE = "remove it, and have everybody sign again"


@dataclass(frozen=True, slots=True)
class Standing:
    """How far an approval has come. With a `fault` nothing else of it is to be believed.

    `withdrawn` says when and why, if it was: it never holds again. `superseded` says that its signers saw an older
    root, under which the gate refuses it. `nonce` is what a nonce book names its use by.
    """

    approval_id: str
    signers: tuple[str, ...]
    needed: int
    published: bool
    expires_s: int
    fault: str | None = None
    withdrawn: Withdrawal | None = None
    superseded: bool = False
    nonce: str = ""


def write_proposal(approvals: Path, approval: Governed) -> Path:
    """Writes a proposal for people to read and sign.

    Raises:
        UsageError: one of that name is there already.
    """
    path = approvals / PROPOSALS / f"{approval.approval_id}.json"
    if path.exists() or path.is_symlink():
        raise UsageError(
            "proposal-there",
            f"expected a new name, found a proposal at {path}",
            hint="choose another --id; a proposal is never changed once somebody may have signed it",
        )
    write_atomic(path, approval.canonical())
    return path


def write_plan(approvals: Path, plan: Plan) -> Path:
    """Writes the plan of a proposal where those who are to sign find it."""
    path = approvals / PLANS / f"{plan.digest_sha256()}.json"
    write_atomic(path, plan.canonical())
    return path


def plan_of(approvals: Path, approval: Governed) -> Plan:
    """Reads the plan that an approval names by digest.

    Raises:
        UsageError: it does not lie beside the proposals.
        ApprovalRefused: what lies there is another.
        DocumentError: it is no plan.
    """
    name = f"{PLANS}/{approval.plan_sha256}.json"
    try:
        data = read_confined(approvals, name, max_bytes=MAX_PLAN_BYTES)
    except (DocumentError, OSError) as error:
        raise UsageError(
            "plan-not-there",
            f"expected the proposed plan at {approvals / name}, found none; nobody signs what cannot be read",
            hint="put it there, as `memtrial approve propose` does, and commit it",
        ) from error
    found = sha256_hex(data)
    if found != approval.plan_sha256:
        raise ApprovalRefused(
            "plan-not-the-proposed-one",
            f"{name}: expected the plan of that digest, found {found[:16]}",
            hint="ask who changed it; restore it from the commit of the proposal",
        )
    return Plan.parse_canonical(data, where=name)


def read_proposal(approvals: Path, approval_id: str) -> Governed:
    """Reads a proposal, which must be the one of its file's name.

    Raises:
        UsageError: there is none of that name, or it is no name of a proposal.
        ApprovalRefused: it is not a canonical approval, or has another name inside.
    """
    name = f"{approval_id}.json"
    try:
        _ID.validate_python(approval_id)
        data = read_confined(approvals, f"{PROPOSALS}/{name}", max_bytes=MAX_SIGNED_BYTES)
    except (ValidationError, DocumentError, OSError) as error:
        raise UsageError(
            "proposal-unknown",
            f"expected a proposal {approvals / PROPOSALS / name}, a plain file of a plain name, found none",
            hint="see `memtrial approve status`",
        ) from error
    approval = _parsed(data, name)
    if approval.approval_id != approval_id:
        raise ApprovalRefused(
            "proposal-of-another-name",
            f"{name}: expected the proposal {approval_id}, found {approval.approval_id} under its name",
            hint="ask who wrote it; a copy under another name is signed for the name inside",
        )
    return approval


def _parsed(data: bytes, name: str) -> Governed:
    read_signed(data, where=name)
    try:
        approval = GOVERNED.validate_json(data)
    except ValidationError as error:
        raise _no_approval(name, "another document") from error
    if approval.canonical() != data:
        raise _no_approval(name, "one with fields left out")
    return approval


def _no_approval(name: str, found: str) -> ApprovalRefused:
    return ApprovalRefused(
        "approval-invalid",
        f"{name}: expected an approval, found {found}",
        hint="make the proposal again with `memtrial approve propose`",
    )


def sign_proposal(
    approvals: Path, approval: Governed, key: SigningKey, roles: TrustedRoles
) -> Path:
    """Adds an approver's signature, once those that are there hold, and returns the envelope's file.

    Raises:
        ApprovalRefused: as `signed_by`; nothing was written then.
    """
    return write_signed(approvals, approval, signed_by(approvals, approval, key, roles))


def write_signed(approvals: Path, approval: Governed, envelope: bytes) -> Path:
    """Writes the signatures of a proposal where the next signer finds them."""
    path = approvals / SIGNED / f"{approval.approval_id}.dsse.json"
    write_atomic(path, envelope)
    return path


def signed_by(approvals: Path, approval: Governed, key: SigningKey, roles: TrustedRoles) -> bytes:
    """Returns the envelope of a proposal with one approver's signature more; writes nothing.

    Raises:
        ApprovalRefused: no approver's key, signed by it already, or what is there is not signed by
            approvers, of another kind or of another proposal.
    """
    role = role_of(roles, "approver", where="roles")
    if key.public.keyid not in role.keys:
        raise ApprovalRefused(
            "signer-not-in-role",
            f"expected the key of an approver, found {key.public.keyid[:16]}",
            hint="sign with a key that `memtrial trust status` lists",
        )
    started = read_signed_so_far(approvals, approval, role)
    if started is None:
        return sign_new(approval.canonical(), (key,), payload_type=APPROVAL_TYPE)
    return add_signature(started[0], key, where=f"{approval.approval_id}.dsse.json")


def read_signed_so_far(
    approvals: Path, approval: Governed, role: Role
) -> tuple[bytes, tuple[str, ...]] | None:
    """Returns the envelope of a proposal that people are signing, and whose signatures hold; None before the first.

    Raises:
        ApprovalRefused: no plain file, a signature that does not hold or is no approver's, another kind of
            envelope, or one of another proposal.
    """
    name = f"{approval.approval_id}.dsse.json"
    path = approvals / SIGNED / name
    if not path.exists() and not path.is_symlink():
        return None
    try:
        data = read_confined(approvals, f"{SIGNED}/{name}", max_bytes=MAX_ENVELOPE_BYTES)
    except DocumentError as error:
        raise ApprovalRefused(error.reference, error.message, hint=_REMOVE) from error
    found = open_started(data, role, payload_type=APPROVAL_TYPE, where=name)
    if found.payload != approval.canonical():
        raise ApprovalRefused(
            "proposal-not-the-signed-one",
            f"{name}: expected the proposal that others signed, found another",
            hint="compare both; somebody changed the proposal after it was signed",
        )
    return data, found.signers


def standings(approvals: Path, *, now_s: int) -> tuple[Standing, ...]:
    """Returns every proposal and every published approval with its signatures, in order of its name."""
    root = current(approvals, now_s=now_s)
    role = role_of(load_roles(root.roles_data, where="roles"), "approver", where="roles")
    published = {
        path.removeprefix(f"{APPROVALS}/").removesuffix(".dsse.json"): data
        for path, data in root.approvals.items()
    }
    proposed = {path.stem for path in (approvals / PROPOSALS).glob("*.json")}
    return tuple(
        _standing(approvals, name, root, role, published.get(name))
        if name not in root.notes
        else _withdrawn(name, role, root.notes[name])
        for name in sorted(proposed | published.keys() | root.notes.keys())
    )


def _withdrawn(name: str, role: Role, note: bytes) -> Standing:
    """Reads the note, which a curator listed; whose signature it bears itself may be a former curator's."""
    said = fault = None
    try:
        payload = parse_envelope(note, where=name).payload
        said = Withdrawal.parse_canonical(from_base64(payload, where=name), where=name)
    except MemtrialError as error:
        fault = f"withdrawn, by a note that cannot be read: {error.message}"
    return Standing(name, (), role.threshold, False, 0, fault, said)


def check_not_withdrawn(root: TrustRoot, approval_id: str) -> None:
    """Refuses the name of an approval that was withdrawn.

    Raises:
        ApprovalRefused: it was.
    """
    if approval_id in root.notes:
        raise ApprovalRefused(
            "approval-withdrawn",
            f"expected an approval that was not withdrawn, found that {approval_id} was",
            hint="see `memtrial approve status` for why; propose again under another --id",
        )


def check_root_named(root: TrustRoot, approval: Governed) -> None:
    """Refuses to sign or publish what was proposed under another root: the gate never takes it.

    Raises:
        ApprovalRefused: it was.
    """
    if not names_root(approval, root):
        raise ApprovalRefused(
            "root-not-the-approved-one",
            f"expected an approval under {told(pin_of(root))}, found one under {told(approval.root)}",
            hint="the owners changed the root or its roles meanwhile: propose again under another --id",
        )


def _standing(
    approvals: Path, name: str, root: TrustRoot, role: Role, published: bytes | None
) -> Standing:
    try:
        if published is None:
            approval = read_proposal(approvals, name)
            started = read_signed_so_far(approvals, approval, role)
            signers = started[1] if started else ()
        else:
            found = open_signed(published, role, payload_type=APPROVAL_TYPE, where=name)
            approval, signers = _parsed(found.payload, name), found.signers
    except MemtrialError as error:
        listed = published is not None
        return Standing(name, (), role.threshold, listed, 0, f"{error.reference}: {error.message}")
    return Standing(
        approval_id=name,
        signers=signers,
        needed=role.threshold,
        published=published is not None,
        expires_s=approval.window.expires_s,
        superseded=not names_root(approval, root),
        nonce=approval.nonce,
    )

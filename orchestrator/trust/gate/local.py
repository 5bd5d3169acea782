"""The small gate of phase local: one operator's own signature over one exact plan, with a spending cap.

Reads the plan's bytes, the envelope and the operator's roles. The checks stand in CHECKS in their order;
the first that fails ends it. Whatever passes is directional for ever.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from orchestrator.core.canonical import sha256_hex
from orchestrator.core.clock import utc_text_of
from orchestrator.core.errors import ApprovalRefused, DocumentError
from orchestrator.model.approval import LOCAL_TYPE, LocalApproval
from orchestrator.model.gateway import LivePin
from orchestrator.model.permit import Permit
from orchestrator.model.plan import Plan
from orchestrator.trust.envelope import open_signed
from orchestrator.trust.gate.issue import issue_permit
from orchestrator.trust.home import Home
from orchestrator.trust.nonces import Use
from orchestrator.trust.roles import role_of
from orchestrator.trust.strict import read_signed

ENVELOPE = "approval"
AGAIN = "approve the plan as it is now: `memtrial approve local PLAN --max-usd N`"


@dataclass(frozen=True, slots=True)
class Asked:
    """What the local gate is asked: may this run, with these bytes, begin (or go on) now."""

    plan_data: bytes
    envelope_data: bytes
    home: Home
    run_id: str
    now_s: int


@dataclass(frozen=True, slots=True)
class Leave:
    """The answer yes: the permit, and the approval that it rests on."""

    permit: Permit
    approval: LocalApproval
    approval_sha256: str
    signers: tuple[str, ...]


@dataclass(slots=True)
class _State:
    """What the checks have established so far; each may rely on those before it."""

    asked: Asked
    plan: Plan | None = None
    payload: bytes = b""
    signers: tuple[str, ...] = ()
    approval: LocalApproval | None = None

    def known(self) -> tuple[LivePin, LocalApproval]:
        """Returns pin and approval, which checks 1 and 3 have established."""
        pin = self.plan.gateway if self.plan else None
        if not isinstance(pin, LivePin) or self.approval is None:
            raise _refuse("check-out-of-order", "plan and approval", "neither")
        return pin, self.approval


def _plan(state: _State) -> None:
    try:
        plan = Plan.parse_canonical(state.asked.plan_data, where="plan")
    except DocumentError as error:
        raise ApprovalRefused("plan-invalid", error.message, hint=AGAIN) from error
    if plan.phase != "local":
        raise _refuse("phase-not-local", "a plan of phase local", f"phase {plan.phase}")
    if not isinstance(plan.gateway, LivePin):
        raise _refuse(
            "plan-not-live", "a plan whose model is live", "a plan that calls no provider"
        )
    state.plan = plan


def _signature(state: _State) -> None:
    role = role_of(state.asked.home.roles, "operator", where="roles")
    found = open_signed(state.asked.envelope_data, role, payload_type=LOCAL_TYPE, where=ENVELOPE)
    state.payload, state.signers = found.payload, found.signers


def _document(state: _State) -> None:
    read_signed(state.payload, where=ENVELOPE)
    try:
        state.approval = LocalApproval.parse_canonical(state.payload, where=ENVELOPE)
    except DocumentError as error:
        raise ApprovalRefused("approval-invalid", error.message, hint=AGAIN) from error


def _root(state: _State) -> None:
    _, approval = state.known()
    if approval.root_sha256 != state.asked.home.roles.sha256:
        raise _refuse(
            "root-not-the-approved-one",
            f"roles {state.asked.home.roles.sha256[:16]}",
            f"an approval under {approval.root_sha256[:16]}",
        )


def _plan_bytes(state: _State) -> None:
    _, approval = state.known()
    found = sha256_hex(state.asked.plan_data)
    if approval.plan_sha256 != found:
        raise _refuse(
            "plan-not-the-approved-one",
            f"the approved plan {approval.plan_sha256[:16]}",
            found[:16],
        )


def _cap(state: _State) -> None:
    pin, approval = state.known()
    if pin.caps.per_run_usd_micros > approval.max_usd_micros:
        raise _refuse(
            "cap-above-approval",
            f"a plan that may spend at most the approved {approval.max_usd_micros} micro-USD",
            f"one that may spend {pin.caps.per_run_usd_micros}",
        )


def _upstreams(state: _State) -> None:
    pin, approval = state.known()
    if approval.upstreams != (pin.upstream,):
        raise _refuse(
            "upstream-not-approved",
            f"the plan's upstream {pin.upstream.origin}",
            ", ".join(u.origin for u in approval.upstreams),
        )


def _window(state: _State) -> None:
    _, approval = state.known()
    window, now_s = approval.window, state.asked.now_s
    if now_s < window.not_before_s:
        raise _refuse(
            "approval-not-yet-valid",
            f"a time from {utc_text_of(window.not_before_s)} on",
            f"{utc_text_of(now_s)}: the approval does not hold yet",
        )
    if now_s >= window.expires_s:
        raise _refuse(
            "approval-expired",
            f"a time before {utc_text_of(window.expires_s)}",
            f"{utc_text_of(now_s)}: the approval has expired",
        )


def _unused(state: _State) -> None:
    _, approval = state.known()
    state.asked.home.book.check(_use(state.asked, approval), now_s=state.asked.now_s)


# In order; the number of a check is its place.
CHECKS: tuple[Callable[[_State], None], ...] = (
    _plan,
    _signature,
    _document,
    _root,
    _plan_bytes,
    _cap,
    _upstreams,
    _window,
    _unused,
)


def pass_local_gate(asked: Asked) -> Leave:
    """Runs every check in order and returns the permit; reserves nothing.

    Raises:
        ApprovalRefused: the first check that failed, with its number.
    """
    state = _State(asked)
    for number, check in enumerate(CHECKS, start=1):
        try:
            check(state)
        except ApprovalRefused as error:
            raise ApprovalRefused(
                error.reference, error.message, hint=error.hint, check=number
            ) from error
    pin, approval = state.known()
    permit = issue_permit(
        plan_sha256=approval.plan_sha256,
        max_usd_micros=min(approval.max_usd_micros, pin.caps.per_run_usd_micros),
        expires_s=approval.window.expires_s,
        # The approval names the plan's bytes, and they name the model.
        models=(pin.model,),
        upstreams=approval.upstreams,
    )
    return Leave(permit, approval, sha256_hex(asked.envelope_data), state.signers)


def dispatch_local(asked: Asked) -> Leave:
    """Passes the gate and writes the use of the approval down, durably, before it returns.

    Raises:
        ApprovalRefused: a check failed, or another run used the approval meanwhile.
    """
    leave = pass_local_gate(asked)
    asked.home.book.reserve(_use(asked, leave.approval), now_s=asked.now_s)
    return leave


def _use(asked: Asked, approval: LocalApproval) -> Use:
    return Use(
        nonce=approval.nonce,
        approval_sha256=sha256_hex(asked.envelope_data),
        plan_sha256=approval.plan_sha256,
        run_id=asked.run_id,
    )


def _refuse(reference: str, expected: str, found: str) -> ApprovalRefused:
    return ApprovalRefused(reference, f"expected {expected}, found {found}", hint=AGAIN)

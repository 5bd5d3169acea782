"""Checks, from a bundle alone, that a live run cites the approval that it began under, and kept to it.

Reads plan, ledger, approval, roles and the gateway's record of a bundle. The roles are the bundle's own:
whose keys they are only the reader can say, who brings key ids from outside. What the gate compared with
files of its own machine (repository, installation, nonce book) cannot be had again from a bundle.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import ValidationError

from orchestrator.attest import layout
from orchestrator.audit.opening import Opened
from orchestrator.audit.recheck import Found
from orchestrator.core.canonical import sha256_hex
from orchestrator.core.clock import utc_seconds, utc_text_of
from orchestrator.core.errors import ApprovalRefused, DocumentError, Negative
from orchestrator.gateway.accounts import Accounts, add_usages
from orchestrator.model.approval import (
    APPROVAL_TYPE,
    GOVERNED,
    LOCAL_TYPE,
    ApprovedCaps,
    LocalApproval,
    OfficialApproval,
    SmokeApproval,
    Upstream,
)
from orchestrator.model.gateway import LivePin
from orchestrator.model.record import RunApproved, RunResumed
from orchestrator.model.usage import PROVIDER_OF, Usage
from orchestrator.pipeline.dossier import Dossier
from orchestrator.trust.envelope import Opened as Signed
from orchestrator.trust.envelope import open_signed
from orchestrator.trust.roles import TrustedRoles, check_sealing_key, load_roles, role_of
from orchestrator.trust.strict import read_signed

AnyApproval = LocalApproval | OfficialApproval | SmokeApproval


@dataclass(frozen=True, slots=True)
class _Allowed:
    """What an approval of either kind allows, in the same words."""

    approval: AnyApproval
    max_usd_micros: int
    upstreams: tuple[Upstream, ...]
    threshold: int


def check_approval(
    opened: Opened,
    dossier: Dossier,
    accounts: Accounts | None,
    approvers: frozenset[str] = frozenset(),
) -> Found:
    """Says whether the run needed an approval, has one, and kept to it.

    Args:
        opened, dossier, accounts: the bundle, its record, and what its gateway wrote.
        approvers: key ids of those who may approve, from outside the bundle.

    Raises:
        Negative: missing, not the one that the ledger names, not signed, by others, of another plan, not
            kept to, or of a run that another key than the ledger's sealed.
    """
    data = opened.files.optional(layout.APPROVAL)
    pin = dossier.plan.gateway
    if data is None and (isinstance(pin, LivePin) or dossier.plan.phase != "local"):
        raise Negative(
            "approval-missing",
            f"expected {layout.APPROVAL} for a live plan of phase {dossier.plan.phase}, found none",
            hint="a paid run without an approval is not to be relied on",
        )
    entry = _entry_of(dossier)
    if data is None:
        if entry is not None:
            raise _differs("a ledger that names no approval where there is none", "one that does")
        return Found(0, "no live model: none is needed")
    if entry is None or entry.approval_sha256 != sha256_hex(data):
        raise _differs("the approval that the ledger names", sha256_hex(data)[:16])
    if not isinstance(pin, LivePin):
        raise _differs("an approval of a plan with a live model", "a plan without")
    allowed, signed = _read(opened, dossier, data)
    for what, expected, found in (
        *_of_plan(allowed, dossier, pin),
        *_of_entry(allowed, signed, pin, entry),
    ):
        if expected != found:
            raise _differs(f"{what} {expected}", str(found))
    _check_sealed(opened, dossier)
    _check_approvers(signed, allowed, approvers)
    calls = _check_record(allowed, dossier, accounts)
    _check_asked(pin, accounts)
    approval = allowed.approval
    signers = ", ".join(keyid[:16] for keyid in signed.signers)
    told = f"{entry.standing}: {approval.approval_id} by {signers}, at most {allowed.max_usd_micros} micro-USD; {calls} calls within it"
    if not approvers:
        told += "; no --approver given: whose keys these are is the bundle's own word"
    return Found(len(signed.signers), told, whole=bool(approvers))


def _entry_of(dossier: Dossier) -> RunApproved | None:
    """Returns what the ledger says of the approval: once, behind its first line, or not at all."""
    places = [e.seq for e in dossier.content.entries if isinstance(e.body, RunApproved)]
    if places not in ([], [1]):
        raise _differs(
            "one line about it, the second of the ledger",
            f"it in lines {', '.join(str(seq + 1) for seq in places)}",
        )
    return dossier.run.approved


def _check_sealed(opened: Opened, dossier: Dossier) -> None:
    """Refuses a run of phase smoke or official that another key sealed than the roles name as the ledger's."""
    if dossier.plan.phase == "local":
        return
    try:
        check_sealing_key(_roles_of(opened), opened.card.key.keyid)
    except ApprovalRefused as error:
        raise Negative(
            error.reference,
            f"{layout.ROLES}: {error.message}",
            hint="whoever sealed it is not whom its trust root names for that: do not rely on it",
        ) from error


def _check_approvers(signed: Signed, allowed: _Allowed, approvers: frozenset[str]) -> None:
    """Counts only those signers whose keys the reader knows, where any were given."""
    known = set(signed.signers) & approvers
    if approvers and len(known) < allowed.threshold:
        raise Negative(
            "approval-not-by-approvers",
            f"{layout.APPROVAL}: expected {allowed.threshold} signatures by keys given with --approver, found {len(known)} among {', '.join(signed.signers)}",
            hint="others approved this run: ask whoever published those key ids",
        )


def _read(opened: Opened, dossier: Dossier, data: bytes) -> tuple[_Allowed, Signed]:
    """Verifies the signatures by the roles of the bundle, and reads what was signed."""
    local = dossier.plan.phase == "local"
    try:
        roles = _roles_of(opened)
        role = role_of(roles, "operator" if local else "approver", where=layout.ROLES)
        kind = LOCAL_TYPE if local else APPROVAL_TYPE
        signed = open_signed(data, role, payload_type=kind, where=layout.APPROVAL)
        read_signed(signed.payload, where=layout.APPROVAL)
        allowed = _parsed(signed.payload, roles.sha256, role.threshold, local=local)
    except (ApprovalRefused, DocumentError) as error:
        raise Negative(error.reference, error.message, hint=error.hint) from error
    return allowed, signed


def _roles_of(opened: Opened) -> TrustedRoles:
    data = opened.files.optional(layout.ROLES)
    if data is None:
        raise _differs(f"{layout.ROLES} beside the approval", "none")
    return load_roles(data, where=layout.ROLES)


def _parsed(payload: bytes, roles_sha256: str, threshold: int, *, local: bool) -> _Allowed:
    if local:
        own = LocalApproval.parse_canonical(payload, where=layout.APPROVAL)
        if own.root_sha256 != roles_sha256:
            raise _differs("the roles that the approval names", roles_sha256[:16])
        return _Allowed(own, own.max_usd_micros, own.upstreams, threshold)
    try:
        governed = GOVERNED.validate_json(payload)
    except ValidationError as error:
        raise _differs("an approval of this phase", "another document") from error
    if governed.canonical() != payload:
        raise _differs("canonical bytes", "others")
    if governed.root.roles_sha256 != roles_sha256:
        raise _differs("the roles that the approval names", roles_sha256[:16])
    upstreams = (governed.runner.upstream,)
    return _Allowed(governed, governed.caps.max_cost_usd_micros, upstreams, threshold)


Triples = Iterator[tuple[str, object, object]]


def _of_plan(allowed: _Allowed, dossier: Dossier, pin: LivePin) -> Triples:
    """Yields what approval and plan must say alike: name, as approved, as planned."""
    approval = allowed.approval
    yield "phase", approval.phase, dossier.plan.phase
    yield "plan", approval.plan_sha256, dossier.plan_sha256
    yield "upstreams", _origins(allowed.upstreams), _origins((pin.upstream,))
    planned = pin.caps.per_run_usd_micros
    yield "a cap of at most", allowed.max_usd_micros, max(planned, allowed.max_usd_micros)
    if isinstance(approval, LocalApproval):
        yield "standing", approval.standing, pin.standing
        return
    price = pin.prices.digest_sha256()
    yield "namespace", approval.namespace, dossier.plan.namespace
    yield "model", approval.runner.model, pin.model
    yield "price table", approval.pricing.table_sha256, price
    yield "cap", approval.caps.max_cost_usd_micros, planned


def _origins(upstreams: tuple[Upstream, ...]) -> str:
    return ", ".join(f"{u.provider} {u.origin}" for u in upstreams)


def _of_entry(allowed: _Allowed, signed: Signed, pin: LivePin, entry: RunApproved) -> Triples:
    """Yields what approval and ledger must say alike."""
    yield "id", allowed.approval.approval_id, entry.approval_id
    yield "signers", signed.signers, entry.signers
    yield "standing", pin.standing, entry.standing
    yield "end", allowed.approval.window.expires_s, entry.expires_s
    cap = min(allowed.max_usd_micros, pin.caps.per_run_usd_micros)
    yield "cap in the ledger", cap, entry.max_usd_micros


def _check_record(allowed: _Allowed, dossier: Dossier, accounts: Accounts | None) -> int:
    """Compares every call with window and caps; returns how many calls there were."""
    window = allowed.approval.window
    for line in dossier.content.entries:
        at_s = utc_seconds(line.at)
        inside = window.not_before_s <= at_s < window.expires_s
        if isinstance(line.body, RunApproved) and not inside:
            raise _not_kept(f"a run that began in {_span(allowed)}", line.at)
        if isinstance(line.body, RunResumed) and not inside:
            raise _not_kept(f"a run that was taken up again in {_span(allowed)}", line.at)
    if not isinstance(allowed.approval, LocalApproval):
        _check_counts(allowed.approval.caps, dossier, accounts)
    if accounts is None:
        return 0
    for exchange in accounts.exchanges():
        if not exchange.tries:
            continue
        first_s = utc_seconds(exchange.at)
        # A lower bound of when the last try began: waiting between tries comes on top.
        last_s = first_s + sum(t.waited_ms for t in exchange.tries[:-1]) / 1000
        if first_s < window.not_before_s or last_s >= window.expires_s:
            raise _not_kept(f"calls in {_span(allowed)}", f"one of {exchange.at}")
    spent = sum(charge.cost.usd_micros for charge in accounts.charges)
    if spent > allowed.max_usd_micros:
        raise _not_kept(f"at most {allowed.max_usd_micros} micro-USD spent", f"{spent}")
    return len(accounts.charges)


def _check_asked(pin: LivePin, accounts: Accounts | None) -> None:
    """Refuses calls of another model, or to another provider, than was signed: sent, or with money set aside."""
    if accounts is None:
        return
    signed = f"calls of {pin.model} at {pin.upstream.provider} alone"
    for charge in accounts.charges:
        if charge.reserved.model != pin.model:
            raise _not_kept(signed, f"money set aside for {charge.reserved.model}")
    for exchange in accounts.exchanges():
        if not exchange.tries:
            continue
        provider = PROVIDER_OF[exchange.api] if exchange.api else None
        if (exchange.model, provider) != (pin.model, pin.upstream.provider):
            raise _not_kept(signed, f"one of {exchange.model} at {provider}")


def _check_counts(caps: ApprovedCaps, dossier: Dossier, accounts: Accounts | None) -> None:
    """Compares attempts, calls and the tokens that the provider reported with what people signed."""
    used = add_usages(e.usage for e in accounts.exchanges() if e.usage) if accounts else Usage()
    attempts = sum(len(trial.attempts) for trial in dossier.run.trials.values())
    for what, allowed, found in (
        ("attempts of agents", caps.max_agent_calls, attempts),
        ("calls", caps.max_provider_calls, len(accounts.charges) if accounts else 0),
        ("tokens in", caps.max_input_tokens, used.all_input),
        ("tokens out", caps.max_output_tokens, used.output),
    ):
        if found > allowed:
            raise _not_kept(f"at most {allowed} {what}", f"{found}")


def _span(allowed: _Allowed) -> str:
    window = allowed.approval.window
    return f"the window {utc_text_of(window.not_before_s)} to {utc_text_of(window.expires_s)}"


def _not_kept(expected: str, found: str) -> Negative:
    return Negative(
        "approval-not-kept",
        f"{layout.APPROVAL}: expected {expected}, found {found}",
        hint="the run went beyond what was signed: do not rely on it",
    )


def _differs(expected: str, found: str) -> Negative:
    return Negative(
        "approval-differs",
        f"{layout.APPROVAL}: expected {expected}, found {found}",
        hint="the run was not made under this approval: do not rely on it",
    )

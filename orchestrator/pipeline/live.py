"""A live run: passes the gate before a folder is made, writes down what allowed it, and starts the live gateway.

The gateway's process passes the gate itself, from the run's own files; no permit travels to it. Reads the
operator's corner and, in the gateway's process alone, provider keys.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from orchestrator.attest import layout
from orchestrator.core.clock import unix_time_s
from orchestrator.core.errors import ApprovalRefused
from orchestrator.core.files import read_confined, write_atomic
from orchestrator.core.places import local_home
from orchestrator.gateway.control import MAX_LINE_BYTES, run_controlled
from orchestrator.gateway.gateway import Gateway
from orchestrator.gateway.keys import keys_from_environment
from orchestrator.gateway.live import LiveMode
from orchestrator.gateway.secrets import Secrets
from orchestrator.ledger.chain import Ledger, read_entries
from orchestrator.ledger.history import nothing_recorded, replay
from orchestrator.model.gateway import LivePin, LiveSetup
from orchestrator.model.plan import Plan
from orchestrator.model.record import RunApproved
from orchestrator.pipeline.livebook import book_of, check_book
from orchestrator.trust.approvals import live_pin
from orchestrator.trust.gate.local import Asked, Leave, dispatch_local, pass_local_gate
from orchestrator.trust.home import open_home
from orchestrator.trust.nonces import NO_RUN

MAX_PLAN_BYTES = 64 * 1024 * 1024
MAX_APPROVAL_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Approved:
    """What a run's folder and ledger say about the approval that it began under."""

    entry: RunApproved
    files: tuple[tuple[str, bytes], ...]

    def write(self, folder: Path) -> None:
        """Writes approval and roles beside the record."""
        for name, data in self.files:
            write_atomic(folder / name, data)


Approve = Callable[[str], Approved]


def only_dispatched(plan: Plan) -> ApprovalRefused:
    """Returns the refusal to run a plan of phase smoke or official from here."""
    return ApprovalRefused(
        "supervisor-dispatches",
        f"expected a plan of phase local, found phase {plan.phase}, which only a supervisor dispatches; nothing was contacted",
        hint="dispatch it with `memtrial official PLAN --approval ID --key LEDGER-KEY.pem`",
    )


def approval_for(plan: Plan, envelope_data: bytes | None) -> Approve | None:
    """Passes the gate for a new run of a plan; returns what uses the approval up once the run has its id.

    Args:
        plan: the plan that is to run.
        envelope_data: the approval; None where the user asked for no live run.

    Raises:
        ApprovalRefused: a live plan without an approval, or a check that failed.
        EnvironmentMissing: there is no key of the provider.
    """
    live = isinstance(plan.gateway, LivePin)
    if envelope_data is None:
        if live:
            raise _needs_approval("no --live")
        return None
    if plan.phase != "local":
        raise only_dispatched(plan)
    plan_data, home = plan.canonical(), open_home(local_home())
    asked = Asked(plan_data, envelope_data, home, NO_RUN, int(unix_time_s()))
    pass_local_gate(asked)
    keys_from_environment().header(live_pin(plan).upstream.provider)

    def approve(run_id: str) -> Approved:
        now_s = int(unix_time_s())
        leave = dispatch_local(Asked(plan_data, envelope_data, home, run_id, now_s))
        return Approved(
            _entry(leave),
            ((layout.APPROVAL, envelope_data), (layout.ROLES, home.roles.document.canonical())),
        )

    return approve


def check_resumable(plan: Plan, folder: Path) -> RunApproved | None:
    """Passes the gate for a run that goes on: same run, same approval, inside its window.

    Returns:
        What the ledger should say of the approval and does not, because the run ended before it was written.

    Raises:
        ApprovalRefused: a check failed, or the approval is not the one that this run began under.
        IntegrityError: nothing was recorded.
        EnvironmentMissing: there is no key of the provider.
    """
    if not isinstance(plan.gateway, LivePin) or plan.phase != "local":
        return None
    asked = _asked_by(folder, local_home(), folder.name)
    leave = pass_local_gate(asked)
    keys_from_environment().header(plan.gateway.upstream.provider)
    entry = _entry(leave)
    unwritten = unwritten_of(folder, entry)
    if asked.home.book.state().use_of(leave.approval.nonce) is None:
        raise _another_approval("an approval that the nonce book gave to it", None, entry)
    return unwritten


def unwritten_of(folder: Path, entry: RunApproved) -> RunApproved | None:
    """Returns what a run's ledger should say of the approval that it goes on under and does not.

    Raises:
        ApprovalRefused: the ledger names another approval.
        IntegrityError: nothing was recorded.
    """
    ledger = folder / layout.LEDGER
    record = replay(read_entries(ledger)[0] if ledger.is_file() else [])
    if record.started is None:
        raise nothing_recorded(folder)
    if record.approved not in {None, entry}:
        raise _another_approval("the approval that its ledger names", record.approved, entry)
    return None if record.approved else entry


def append_approval(folder: Path, entry: RunApproved | None) -> None:
    """Writes the missing word of a run's approval into its ledger, before the run goes on."""
    if entry is None:
        return
    ledger, _, _ = Ledger.open_for_append(folder / layout.LEDGER, repair=True)
    try:
        ledger.append(entry)
    finally:
        ledger.close()


def _another_approval(
    expected: str, named: RunApproved | None, found: RunApproved
) -> ApprovalRefused:
    was = f" ({named.approval_id}, {named.approval_sha256[:16]})" if named else ""
    return ApprovalRefused(
        "approval-of-another-run",
        f"a run that goes on: expected {expected}{was}, found {found.approval_id}, {found.approval_sha256[:16]}; nothing was contacted",
        hint=f"restore the run's own {layout.APPROVAL} and the nonce book from copies, or begin a new run",
    )


def _asked_by(folder: Path, home: Path, run_id: str) -> Asked:
    envelope = folder / layout.APPROVAL
    if not envelope.is_file():
        raise _needs_approval(f"none in {folder.name}")
    return Asked(
        plan_data=read_confined(folder, layout.PLAN, max_bytes=MAX_PLAN_BYTES),
        envelope_data=read_confined(folder, layout.APPROVAL, max_bytes=MAX_APPROVAL_BYTES),
        home=open_home(home),
        run_id=run_id,
        now_s=int(unix_time_s()),
    )


def _entry(leave: Leave) -> RunApproved:
    return RunApproved(
        approval_sha256=leave.approval_sha256,
        approval_id=leave.approval.approval_id,
        signers=leave.signers,
        standing=leave.approval.standing,
        max_usd_micros=leave.permit.max_usd_micros,
        expires_s=leave.approval.window.expires_s,
    )


def _needs_approval(found: str) -> ApprovalRefused:
    return ApprovalRefused(
        "live-needs-approval",
        f"a plan with a live model: expected a signed approval, found {found}; nothing was contacted",
        hint="approve it with `memtrial approve local PLAN --max-usd N`, then `memtrial run PLAN --live`",
    )


def live_gateway(line: bytes) -> Gateway:
    """Makes the live gateway of a run, in the process that will call the provider.

    Raises:
        ApprovalRefused: the gate refused.
        DocumentError: the set-up is malformed.
    """
    setup = LiveSetup.parse(line, where="set-up", max_bytes=MAX_LINE_BYTES)
    folder = Path(setup.plan).parent
    asked = _asked_by(folder, Path(setup.home), setup.run_id)
    leave = dispatch_local(asked)
    pin = live_pin(Plan.parse_canonical(asked.plan_data, where=layout.PLAN))
    keys = keys_from_environment()
    cap = min(pin.caps.per_run_usd_micros, leave.permit.max_usd_micros)
    book = book_of(Path(setup.home), leave.approval.nonce)
    check_book(book, Path(setup.folder))
    return Gateway(
        LiveMode(leave.permit, keys, plan_sha256=leave.permit.plan_sha256),
        folder=Path(setup.folder),
        sockets=Path(setup.sockets),
        prices=pin.prices,
        caps=pin.caps.model_copy(update={"per_run_usd_micros": cap}),
        bounds=setup.bounds,
        secrets=Secrets(keys.values()),
        book=book,
        quota=leave.permit.quota,
    )


def run_live_controlled() -> int:
    """Runs a live gateway until standard input ends; returns the exit code."""
    return run_controlled(live_gateway)

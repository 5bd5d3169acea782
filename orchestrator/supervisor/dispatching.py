"""Dispatches one run: repeats the gate, uses its approval up, and serves the live gateway in this process.

Provider keys, record, spend book and nonce book stay with the supervisor's user; the operator gets sockets
and run tokens for the plan's own trials, and read-only descriptors of the record. Ends with the connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from orchestrator.core.canonical import canonical_bytes, sha256_hex
from orchestrator.core.errors import (
    ApprovalRefused,
    DocumentError,
    EnvironmentMissing,
    MemtrialError,
)
from orchestrator.core.files import require_writable
from orchestrator.core.pae import to_base64
from orchestrator.core.strictjson import parse_json
from orchestrator.gateway.accounts import ROLES
from orchestrator.gateway.gateway import Gateway
from orchestrator.gateway.keys import ProviderKeys
from orchestrator.gateway.live import LiveMode
from orchestrator.gateway.record import BODIES, TRAFFIC
from orchestrator.gateway.secrets import Secrets
from orchestrator.model.dispatch import DispatchAsked, Dispatched
from orchestrator.model.gateway import Bounds
from orchestrator.model.plan import Plan
from orchestrator.model.record import RunApproved
from orchestrator.pipeline.livebook import book_of, check_book
from orchestrator.protocols import TrialPlace
from orchestrator.supervisor.lines import MAX_ORDER_BYTES, Lines
from orchestrator.supervisor.peers import close_to_others, may_call
from orchestrator.trust.approvals import live_pin
from orchestrator.trust.gate.asked import GateAsked, Governed
from orchestrator.trust.gate.official import Dispatch, check_holds, dispatch
from orchestrator.trust.roles import TrustedRoles, check_sealing_key

T = TypeVar("T")
RUNS = "runs"


@dataclass(frozen=True, slots=True)
class Means:
    """What runs are dispatched with.

    Args:
        asked: the question to the gate about plan bytes, approval id and run id, with the answer of this supervisor.
        keys: of the providers; nobody else has them.
        state: the supervisor's own folder.
        sockets: a folder that everybody may enter; the sockets of a run lie in one below it that only its operator may.
    """

    asked: Callable[[bytes, str, str], GateAsked]
    keys: ProviderKeys
    state: Path
    sockets: Path


class _Served:
    """A dispatched run: its permit's gateway on a loop of its own, and what the operator may ask of it."""

    def __init__(
        self,
        given: Dispatch,
        plan: Plan,
        means: Means,
        operator_uid: int,
        holds: Callable[[], None],
    ) -> None:
        self._check_holds = holds
        pin, approval = live_pin(plan), given.approval
        self._plan = {trial.key: trial for trial in plan.trials}
        self._roles = frozenset(approval.roles)
        self._record = record_of(means, approval)
        self._book = book_of(means.state, approval.nonce)
        cap = min(pin.caps.per_run_usd_micros, given.permit.max_usd_micros)

        async def make() -> Gateway:
            return Gateway(
                LiveMode(given.permit, means.keys, plan_sha256=approval.plan_sha256),
                folder=self._record,
                sockets=self._place / "s",
                prices=pin.prices,
                caps=pin.caps.model_copy(update={"per_run_usd_micros": cap}),
                bounds=Bounds(),
                secrets=Secrets(means.keys.values()),
                book=self._book,
                quota=given.permit.quota,
                admits=lambda uid: may_call(uid, operator_uid),
            )

        self._ended = False
        # What was begun ends, in turn, when something after it fails.
        with contextlib.ExitStack() as ends:
            # The kernel bounds the length of a socket's path.
            self._place = Path(tempfile.mkdtemp(prefix="r", dir=means.sockets))
            ends.callback(shutil.rmtree, self._place, ignore_errors=True)
            self._loop = asyncio.new_event_loop()
            ends.callback(self._loop.close)
            thread = threading.Thread(target=self._loop.run_forever, daemon=True)
            thread.start()
            ends.callback(thread.join)
            ends.callback(self._loop.call_soon_threadsafe, self._loop.stop)
            close_to_others(self._place, operator_uid)
            self._gateway = self._call(make())
            self._ends = ends.pop_all()

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def obey(self, lines: Lines, line: bytes) -> bool:
        """Does what one line asks for and answers it; returns whether there may be another."""
        try:
            answer, end = self._do(line)
        except MemtrialError as error:
            lines.answer(failure(error))
            return True
        with contextlib.ExitStack() as files:
            handles = [
                files.enter_context(path.open("rb")).fileno()
                for path in (self._record / TRAFFIC, self._record / BODIES, self._book)
            ]
            lines.answer(canonical_bytes(answer) + b"\n", handles)
        return not end

    def _do(self, line: bytes) -> tuple[dict[str, object], bool]:
        order = parse_json(line, where="order", max_bytes=MAX_ORDER_BYTES)
        if isinstance(order, dict) and set(order) == {"open"} and isinstance(order["open"], dict):
            place = self._place_of(order["open"])
            self._check_holds()
            opened = self._call(self._gateway.open_trial(place))
            return {"folder": str(opened.folder), "tokens": dict(opened.tokens)}, False
        if isinstance(order, dict) and set(order) == {"close"}:
            traffic = self._call(self._gateway.close_trial(str(order["close"])))
            return {"traffic": traffic.model_dump(mode="json")}, False
        if order == {"end": True}:
            self._end()
            return {"ended": True}, True
        raise DocumentError(
            "order-unknown", "order: expected open, close or end, found something else", hint="end"
        )

    def _place_of(self, said: dict[str, Any]) -> TrialPlace:
        """Reads which attempt is to be opened: one of the plan's trials, for the roles that people signed."""
        trial = self._plan.get(str(said.get("trial")))
        attempt, roles = said.get("attempt"), said.get("roles")
        plain = type(attempt) is int and 1 <= attempt <= 10**6 and isinstance(roles, list)
        if trial is None or not plain or roles is None or attempt is None:
            raise ApprovalRefused(
                "trial-not-of-plan",
                "expected an attempt of a trial of the approved plan, found another",
                hint="run the plan that was approved",
            )
        # A role that nobody signed gets no token, so it can call nothing.
        approved = tuple(role for role in ROLES if role in roles and role in self._roles)
        return TrialPlace(trial.key, trial.task_id, trial.condition_id, attempt, approved)

    def close(self) -> None:
        """Ends the gateway, however far it came, and removes its sockets."""
        try:
            self._end()
        finally:
            self._ends.close()

    def _end(self) -> None:
        if not self._ended:
            self._ended = True
            self._call(self._gateway.close())
            shutil.rmtree(self._place, ignore_errors=True)


def record_of(means: Means, approval: Governed) -> Path:
    """Returns where a run's gateway writes its record.

    By the nonce and not by the run's id, which the operator chose: no two approvals share a record.
    """
    return means.state / RUNS / approval.nonce


def check_ready(means: Means, approval: Governed, roles: TrustedRoles, sealing_keyid: str) -> None:
    """Refuses a run that could not begin, before its approval is used up.

    Raises:
        EnvironmentMissing: no key of the provider, or folders in which nothing can be made.
        ApprovalRefused: another key than the ledger's would seal it, or the approval's spend book knows of
            less than its record.
    """
    check_sealing_key(roles, sealing_keyid)
    means.keys.header(approval.runner.upstream.provider)
    record = record_of(means, approval)
    check_book(book_of(means.state, approval.nonce), record)
    for folder, purpose in (
        (record, "the record of the run"),
        (means.state, "the books of approvals"),
        (means.sockets, "the sockets of trials"),
    ):
        require_writable(folder, purpose)


def serve_dispatch(
    order: DispatchAsked, lines: Lines, means: Means, operator_uid: int
) -> MemtrialError | None:
    """Answers one operator who asks for a dispatch, until the operator is done; returns why it was refused, if so.

    Raises:
        OSError: the connection broke; the gateway has ended then.
        DocumentError: the operator sent what is no order.
    """
    plan_data = lines.exactly(order.plan_bytes)
    try:
        if sha256_hex(plan_data) != order.plan_sha256:
            raise DocumentError(
                "plan-cut", "expected the announced plan, found another", hint="end"
            )
        ask = partial(means.asked, plan_data, order.approval_id, order.run_id)
        given = dispatch(
            ask(),
            lambda approval, roles: check_ready(means, approval, roles, order.sealing_keyid),
        )
        plan = Plan.parse_canonical(plan_data, where="plan")
        # A withdrawal reaches the run when its next attempt is to be opened.
        holds = partial(check_holds, ask, given.envelope)
        served = _begun(given, plan, means, operator_uid, holds)
    except MemtrialError as error:
        lines.answer(failure(error))
        return error
    try:
        lines.answer(_ready(given, plan).canonical() + b"\n")
        while (line := lines.line(waits_for_first_byte=True)) is not None:
            if not served.obey(lines, line):
                break
    finally:
        served.close()
    return None


def _begun(
    given: Dispatch, plan: Plan, means: Means, operator_uid: int, holds: Callable[[], None]
) -> _Served:
    try:
        return _Served(given, plan, means, operator_uid, holds)
    except (OSError, RuntimeError) as error:
        # A system without room for another thread raises the latter.
        raise EnvironmentMissing(
            "gateway-not-begun",
            f"expected to open the gateway of the run, found {getattr(error, 'strerror', None) or error}",
            hint="mend that on the supervisor's machine; the approval holds for this run's id alone",
        ) from error


def _ready(given: Dispatch, plan: Plan) -> Dispatched:
    return Dispatched(
        entry=RunApproved(
            approval_sha256=given.approval_sha256,
            approval_id=given.approval.approval_id,
            signers=given.signers,
            standing=live_pin(plan).standing,
            max_usd_micros=given.permit.max_usd_micros,
            expires_s=given.approval.window.expires_s,
        ),
        envelope=to_base64(given.envelope),
        roles=to_base64(given.roles_data),
    )


def failure(error: MemtrialError) -> bytes:
    """Returns the line that tells an operator why not."""
    check = error.check if isinstance(error, ApprovalRefused) else None
    return (
        canonical_bytes(
            {
                "failed": {
                    "reference": error.reference,
                    "message": error.message,
                    "hint": error.hint,
                    "check": check,
                    "exit_code": error.exit_code,
                }
            }
        )
        + b"\n"
    )

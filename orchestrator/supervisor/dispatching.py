"""Dispatches one run: repeats the gate, uses its approval up, and serves the live gateway in this process.

Provider keys, record, spend book and nonce book stay with the supervisor's user; the operator gets sockets
and run tokens for the plan's own trials, and read-only descriptors of the record. Ends with the connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
import tempfile
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from orchestrator.core.canonical import canonical_bytes, sha256_hex
from orchestrator.core.errors import ApprovalRefused, DocumentError, MemtrialError
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
from orchestrator.trust.approvals import live_pin
from orchestrator.trust.gate.asked import GateAsked
from orchestrator.trust.gate.official import Dispatch, dispatch

T = TypeVar("T")
RUNS = "runs"
MAX_ORDER_BYTES = 64 * 1024
# How long an operator may take to send a plan that it announced, in seconds.
PLAN_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Means:
    """What runs are dispatched with.

    Args:
        asked: the question to the gate about plan bytes, approval id and run id, with the answer of this supervisor.
        keys: of the providers; nobody else has them.
        state: the supervisor's own folder.
        sockets: a folder that everybody may enter, for the sockets of trials.
    """

    asked: Callable[[bytes, str, str], GateAsked]
    keys: ProviderKeys
    state: Path
    sockets: Path


class Lines:
    """Reads lines and counted bytes from a connection."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._read = bytearray()

    def line(self, max_bytes: int = MAX_ORDER_BYTES) -> bytes | None:
        """Returns the next line without its end; None when the other side is done.

        Raises:
            DocumentError: the line is too long.
        """
        while b"\n" not in self._read:
            if len(self._read) > max_bytes:
                raise DocumentError("order-malformed", "expected a short line", hint="end")
            piece = self._connection.recv(65536)
            if not piece:
                return None
            self._read += piece
        line, _, rest = bytes(self._read).partition(b"\n")
        self._read = bytearray(rest)
        return line

    def exactly(self, size: int) -> bytes:
        """Returns so many bytes.

        Raises:
            DocumentError: the other side ended before.
        """
        while len(self._read) < size:
            piece = self._connection.recv(min(1 << 20, size - len(self._read)))
            if not piece:
                raise DocumentError("plan-cut", f"expected {size} bytes, found fewer", hint="end")
            self._read += piece
        data = bytes(self._read[:size])
        del self._read[:size]
        return data


class _Served:
    """A dispatched run: its permit's gateway on a loop of its own, and what the operator may ask of it."""

    def __init__(self, given: Dispatch, plan: Plan, means: Means) -> None:
        pin, approval = live_pin(plan), given.approval
        self._plan = {trial.key: trial for trial in plan.trials}
        self._roles = frozenset(approval.roles)
        # By the nonce and not by the run's id, which the operator chose: no two approvals share a record.
        self._record = means.state / RUNS / approval.nonce
        self._book = book_of(means.state, approval.nonce)
        check_book(self._book, self._record)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        # The kernel bounds the length of a socket's path, and everybody may enter this folder.
        place = Path(tempfile.mkdtemp(prefix="r", dir=means.sockets))
        place.chmod(0o755)
        cap = min(pin.caps.per_run_usd_micros, given.permit.max_usd_micros)

        async def make() -> Gateway:
            return Gateway(
                LiveMode(given.permit, means.keys, plan_sha256=approval.plan_sha256),
                folder=self._record,
                sockets=place / "s",
                prices=pin.prices,
                caps=pin.caps.model_copy(update={"per_run_usd_micros": cap}),
                bounds=Bounds(),
                secrets=Secrets(means.keys.values()),
                book=self._book,
                quota=given.permit.quota,
            )

        self._place = place
        self._ended = False
        try:
            self._gateway = self._call(make())
        except BaseException:
            self._stop()
            raise

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def obey(self, connection: socket.socket, line: bytes) -> bool:
        """Does what one line asks for and answers it; returns whether there may be another."""
        try:
            answer, end = self._do(line)
        except MemtrialError as error:
            connection.sendall(failure(error))
            return True
        with contextlib.ExitStack() as files:
            handles = [
                files.enter_context(path.open("rb")).fileno()
                for path in (self._record / TRAFFIC, self._record / BODIES, self._book)
            ]
            socket.send_fds(connection, [canonical_bytes(answer) + b"\n"], handles)
        return not end

    def _do(self, line: bytes) -> tuple[dict[str, object], bool]:
        order = parse_json(line, where="order", max_bytes=MAX_ORDER_BYTES)
        if isinstance(order, dict) and set(order) == {"open"} and isinstance(order["open"], dict):
            opened = self._call(self._gateway.open_trial(self._place_of(order["open"])))
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
            self._stop()

    def _end(self) -> None:
        if not self._ended:
            self._ended = True
            self._call(self._gateway.close())
            shutil.rmtree(self._place, ignore_errors=True)

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        shutil.rmtree(self._place, ignore_errors=True)


def serve_dispatch(
    connection: socket.socket, order: DispatchAsked, lines: Lines, means: Means
) -> None:
    """Answers one operator who asks for a dispatch, until the operator is done.

    Raises:
        OSError: the connection broke; the gateway has ended then.
        DocumentError: the operator sent what is no order.
    """
    connection.settimeout(PLAN_TIMEOUT_S)
    plan_data = lines.exactly(order.plan_bytes)
    connection.settimeout(None)
    try:
        if sha256_hex(plan_data) != order.plan_sha256:
            raise DocumentError(
                "plan-cut", "expected the announced plan, found another", hint="end"
            )
        given = dispatch(means.asked(plan_data, order.approval_id, order.run_id))
        plan = Plan.parse_canonical(plan_data, where="plan")
        served = _Served(given, plan, means)
    except MemtrialError as error:
        connection.sendall(failure(error))
        return
    try:
        connection.sendall(_ready(given, plan).canonical() + b"\n")
        while (line := lines.line()) is not None:
            if not served.obey(connection, line):
                return
    finally:
        served.close()


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

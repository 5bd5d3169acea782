"""A run of phase smoke or official, from the operator's side: the supervisor has the gateway, this has its sockets.

Connects to the supervisor's Unix socket; a dispatch binds the approval to the run's id. After every answer the
gateway's record, handed over as descriptors, is copied on into the run's folder. Holds no key.
"""

from __future__ import annotations

import array
import os
import socket
import threading
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from pydantic import ValidationError

from orchestrator.attest import layout
from orchestrator.core.canonical import canonical_bytes, sha256_hex
from orchestrator.core.errors import (
    ApprovalRefused,
    BudgetExhausted,
    DocumentError,
    EnvironmentMissing,
    IntegrityError,
    MemtrialError,
    UsageError,
)
from orchestrator.core.files import read_confined
from orchestrator.core.pae import from_base64
from orchestrator.core.strictjson import parse_json
from orchestrator.model.approval import GOVERNED
from orchestrator.model.dispatch import RECORD_FILES, DispatchAsked, Dispatched
from orchestrator.model.gateway import LivePin, Traffic
from orchestrator.model.plan import Plan
from orchestrator.pipeline.live import Approved
from orchestrator.protocols import GatewayPlace, TrialPlace
from orchestrator.trust.ask import SOCKET
from orchestrator.trust.envelope import MAX_ENVELOPE_BYTES, parse_envelope

MAX_ANSWER_BYTES = 64 * 1024 * 1024
PIECE_BYTES = 1 << 20
# The gate measures every input again, and the last calls of a trial may take a while to end.
TIMEOUT_S = 600.0
_KINDS: dict[int, type[MemtrialError]] = {
    kind.exit_code: kind
    for kind in (UsageError, ApprovalRefused, BudgetExhausted, IntegrityError, EnvironmentMissing)
}


class Supervised:
    """The gateway of one run, in the supervisor's process. Threads may open and close trials together."""

    def __init__(self, plan: Plan, approval_id: str, *, path: Path = SOCKET) -> None:
        """Takes down what will be asked; connects when the run has its id."""
        self._plan_data = plan.canonical()
        self._approval_id = approval_id
        self._path = path
        self._lock = threading.Lock()
        self._connection: socket.socket | None = None
        self._record: Path | None = None

    def approve(self, run_id: str) -> Approved:
        """Has the supervisor repeat the gate, use the approval up for this run, and open its gateway.

        Raises:
            ApprovalRefused: a step of the gate refused, or nobody answers at the socket.
        """
        order = DispatchAsked(
            approval_id=self._approval_id,
            run_id=run_id,
            plan_sha256=sha256_hex(self._plan_data),
            plan_bytes=len(self._plan_data),
        )
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(TIMEOUT_S)
        self._connection = connection
        try:
            connection.connect(str(self._path))
        except OSError as error:
            self.close()
            raise ApprovalRefused(
                "supervisor-unreachable",
                f"expected the supervisor at {self._path}, found {error.strerror or error}; nothing was contacted",
                hint="start it as docs/security/supervisor.md says",
            ) from error
        try:
            found = self._ask(order.canonical() + b"\n" + self._plan_data)
            said = Dispatched.model_validate_json(canonical_bytes(found))
        except BaseException:
            self.close()
            raise
        files = (
            (layout.APPROVAL, from_base64(said.envelope, where=layout.APPROVAL)),
            (layout.ROLES, from_base64(said.roles, where=layout.ROLES)),
        )
        return Approved(said.entry, files)

    def record_into(self, folder: Path) -> None:
        """Names the folder that the gateway's record is copied on into."""
        folder.mkdir(parents=True, exist_ok=True)
        self._record = folder

    def open_trial(self, place: TrialPlace) -> GatewayPlace:
        """Has an attempt opened: makes its socket, and tokens for the roles that people signed."""
        answer = self._ask(canonical_bytes({"open": _plain(place)}) + b"\n")
        tokens = answer["tokens"]
        if not isinstance(tokens, Mapping):
            raise _silent("an answer without tokens")
        given = tuple((role, str(tokens[role])) for role in place.roles if role in tokens)
        return GatewayPlace(Path(str(answer["folder"])), given)

    def close_trial(self, trial: str) -> Traffic:
        """Has an attempt closed and returns what went through."""
        answer = self._ask(canonical_bytes({"close": trial}) + b"\n")
        return Traffic.parse(canonical_bytes(answer["traffic"]), where="traffic")

    def end(self) -> None:
        """Ends the gateway and copies the last of its record."""
        try:
            if self._connection is not None:
                self._ask(canonical_bytes({"end": True}) + b"\n")
        finally:
            self.close()

    def close(self) -> None:
        """Breaks off; the supervisor ends the gateway then."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _ask(self, data: bytes) -> dict[str, object]:
        with self._lock:
            if self._connection is None:
                raise _silent("no dispatch")
            try:
                self._connection.sendall(data)
                line, handles = _receive(self._connection)
            except OSError as error:
                raise _silent(error.strerror or str(error)) from error
            try:
                self._copy_on(handles)
            finally:
                for handle in handles:
                    os.close(handle)
        answer = parse_json(line, where="supervisor", max_bytes=MAX_ANSWER_BYTES)
        if not isinstance(answer, dict):
            raise _silent("something else")
        if isinstance(answer.get("failed"), dict):
            raise _refusal(answer["failed"])
        return answer

    def _copy_on(self, handles: list[int]) -> None:
        """Appends what the supervisor's record has more than the run's folder."""
        if self._record is None or len(handles) != len(RECORD_FILES):
            return
        for name, handle in zip(RECORD_FILES, handles, strict=True):
            with (self._record / name).open("ab") as target:
                at = target.tell()
                while piece := os.pread(handle, PIECE_BYTES, at):
                    target.write(piece)
                    at += len(piece)


def supervised_again(plan: Plan, folder: Path, path: Path) -> Supervised | None:
    """Returns the way to the supervisor for a run that goes on; None where it needs none.

    Raises:
        ApprovalRefused: the run's folder has no approval, or not one of this phase.
    """
    if not isinstance(plan.gateway, LivePin) or plan.phase == "local":
        return None
    try:
        data = read_confined(folder, layout.APPROVAL, max_bytes=MAX_ENVELOPE_BYTES)
        envelope = parse_envelope(data, where=layout.APPROVAL)
        approval = GOVERNED.validate_json(from_base64(envelope.payload, where=layout.APPROVAL))
    except (DocumentError, ValidationError) as error:
        raise ApprovalRefused(
            "live-needs-approval",
            f"{folder.name}: expected {layout.APPROVAL}, the approval that this run began under, found none; nothing was contacted",
            hint="restore it from a copy, or dispatch a new run",
        ) from error
    return Supervised(plan, approval.approval_id, path=path)


def _plain(place: TrialPlace) -> dict[str, object]:
    return {**asdict(place), "roles": list(place.roles)}


def _receive(connection: socket.socket) -> tuple[bytes, list[int]]:
    """Returns one line and the descriptors that came with it."""
    data, handles = b"", []
    room = socket.CMSG_SPACE(len(RECORD_FILES) * array.array("i").itemsize)
    while not data.endswith(b"\n"):
        piece, extra, _, _ = connection.recvmsg(65536, room)
        for level, kind, content in extra:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                came = array.array("i")
                came.frombytes(content[: len(content) - len(content) % came.itemsize])
                handles += list(came)
        if not piece or len(data) > MAX_ANSWER_BYTES:
            for handle in handles:
                os.close(handle)
            raise OSError("the supervisor broke off")
        data += piece
    return data[:-1], handles


def _refusal(said: dict[str, object]) -> MemtrialError:
    reference, message, hint = (str(said[name]) for name in ("reference", "message", "hint"))
    check, code = said.get("check"), said.get("exit_code")
    if code == ApprovalRefused.exit_code:
        return ApprovalRefused(
            reference, message, hint=hint, check=check if isinstance(check, int) else None
        )
    kind = _KINDS.get(code if isinstance(code, int) else 0, EnvironmentMissing)
    return kind(reference, message, hint=hint)


def _silent(found: str) -> EnvironmentMissing:
    return EnvironmentMissing(
        "supervisor-silent",
        f"the supervisor: expected an answer, found {found}",
        hint="look at its log, then run `memtrial resume`, which goes on under the same approval",
    )

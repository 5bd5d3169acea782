"""A run of phase smoke or official, from the operator's side: the supervisor has the gateway, this has its sockets.

Connects to the supervisor's Unix socket; a dispatch binds the approval to the run's id. After every answer the
gateway's record, handed over as descriptors, is copied on into the run's folder, and compared. Holds no key.
"""

from __future__ import annotations

import array
import os
import socket
import threading
import time
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
from orchestrator.pipeline.recordcopy import RecordCopy
from orchestrator.protocols import GatewayPlace, TrialPlace
from orchestrator.trust.ask import SOCKET
from orchestrator.trust.envelope import MAX_ENVELOPE_BYTES, parse_envelope

MAX_ANSWER_BYTES = 64 * 1024 * 1024
# The gate measures every input again, and the last calls of a trial may take a while to end.
TIMEOUT_S = 600.0
GO_ON = "look at its log, then run `memtrial resume`, which goes on under the same approval"
AGAIN = (
    "look at its log, then dispatch again; an approval is used up last, so it mostly still holds"
)
_KINDS: dict[int, type[MemtrialError]] = {
    kind.exit_code: kind
    for kind in (UsageError, ApprovalRefused, BudgetExhausted, IntegrityError, EnvironmentMissing)
}


class Supervised:
    """The gateway of one run, in the supervisor's process. Threads may open and close trials together."""

    def __init__(
        self, plan: Plan, approval_id: str, *, sealing_keyid: str, path: Path = SOCKET
    ) -> None:
        """Takes down what will be asked; connects when the run has its id.

        Args:
            plan: the approved plan.
            approval_id: of its approval.
            sealing_keyid: of the key that will seal the run, the ledger's.
            path: of the supervisor's socket.
        """
        self._plan_data = plan.canonical()
        self._approval_id = approval_id
        self._sealing_keyid = sealing_keyid
        self._path = path
        self._lock = threading.Lock()
        self._connection: socket.socket | None = None
        self._record: RecordCopy | None = None

    def approve(self, run_id: str) -> Approved:
        """Has the supervisor repeat the gate, use the approval up for this run, and open its gateway.

        Raises:
            ApprovalRefused: a step of the gate refused, or nobody answers at the socket.
        """
        order = DispatchAsked(
            approval_id=self._approval_id,
            run_id=run_id,
            sealing_keyid=self._sealing_keyid,
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
            found = self._ask(order.canonical() + b"\n" + self._plan_data, first=True)
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
        self._record = RecordCopy(folder)

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
                self._ask(canonical_bytes({"end": True}) + b"\n", last=True)
        finally:
            self.close()

    def close(self) -> None:
        """Breaks off; the supervisor ends the gateway then."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _ask(self, data: bytes, *, first: bool = False, last: bool = False) -> dict[str, object]:
        """Asks one thing and returns its answer, which is none of another's.

        A connection on which an answer is missing is broken off: what came late would be taken for the answer to
        the next question.
        """
        with self._lock:
            if self._connection is None:
                raise _silent("no dispatch")
            try:
                self._connection.settimeout(TIMEOUT_S)
                self._connection.sendall(data)
                line, handles = _receive(self._connection)
            except OSError as error:
                self.close()
                told = error.strerror or str(error)
                raise _silent(told, AGAIN if first else GO_ON) from error
            except BaseException:
                self.close()
                raise
            try:
                answer = _answer(line)
                if not first:
                    self._follow(handles, last=last)
            finally:
                for handle in handles:
                    os.close(handle)
        return answer

    def _follow(self, handles: list[int], *, last: bool) -> None:
        """Copies the record on by the descriptors that came with an answer; without them nothing goes on."""
        if len(handles) != len(RECORD_FILES):
            self.close()
            raise _silent(f"{len(handles)} of {len(RECORD_FILES)} descriptors of its record")
        if self._record is None:
            return
        try:
            self._record.follow(handles, compare=last)
        except BaseException:
            self.close()
            raise


def supervised_again(
    plan: Plan, folder: Path, path: Path, sealing_keyid: str | None
) -> Supervised | None:
    """Returns the way to the supervisor for a run that goes on; None where it needs none.

    Raises:
        ApprovalRefused: the run's folder has no approval, or not one of this phase; no key is named that
            could seal the run.
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
    if sealing_keyid is None:
        raise ApprovalRefused(
            "seal-not-by-ledger",
            f"{folder.name}: expected the ledger's key, which seals the run, found none; nothing was contacted",
            hint=f"name its file: MEMTRIAL_SIGNING_KEY=FILE memtrial resume {folder.name}",
        )
    return Supervised(plan, approval.approval_id, sealing_keyid=sealing_keyid, path=path)


def _plain(place: TrialPlace) -> dict[str, object]:
    return {**asdict(place), "roles": list(place.roles)}


def _receive(connection: socket.socket) -> tuple[bytes, list[int]]:
    """Returns one line and the descriptors that came with it, within one deadline.

    Raises:
        OSError: the supervisor broke off, was too late, or said more than one line.
    """
    handles: list[int] = []
    try:
        return _line(connection, handles), handles
    except BaseException:
        for handle in handles:
            os.close(handle)
        raise


def _line(connection: socket.socket, handles: list[int]) -> bytes:
    data = b""
    room = socket.CMSG_SPACE(len(RECORD_FILES) * array.array("i").itemsize)
    deadline_s = time.monotonic() + TIMEOUT_S
    while b"\n" not in data:
        left_s = deadline_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError(f"no whole answer within {TIMEOUT_S:.0f} s")
        connection.settimeout(left_s)
        piece, extra, _, _ = connection.recvmsg(65536, room)
        for level, kind, content in extra:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                came = array.array("i")
                came.frombytes(content[: len(content) - len(content) % came.itemsize])
                handles += list(came)
        if not piece or len(data) > MAX_ANSWER_BYTES:
            raise OSError("the supervisor broke off")
        data += piece
    line, _, more = data.partition(b"\n")
    if more:
        raise OSError("more than one answer")
    return line


def _answer(line: bytes) -> dict[str, object]:
    """Returns what an answer says; a failure that it tells of is raised here."""
    answer = parse_json(line, where="supervisor", max_bytes=MAX_ANSWER_BYTES)
    if not isinstance(answer, dict):
        raise _silent("something else")
    if isinstance(answer.get("failed"), dict):
        raise _refusal(answer["failed"])
    return answer


def _refusal(said: dict[str, object]) -> MemtrialError:
    reference, message, hint = (str(said[name]) for name in ("reference", "message", "hint"))
    check, code = said.get("check"), said.get("exit_code")
    if code == ApprovalRefused.exit_code:
        return ApprovalRefused(
            reference, message, hint=hint, check=check if isinstance(check, int) else None
        )
    kind = _KINDS.get(code if isinstance(code, int) else 0, EnvironmentMissing)
    return kind(reference, message, hint=hint)


def _silent(found: str, hint: str = GO_ON) -> EnvironmentMissing:
    return EnvironmentMissing(
        "supervisor-silent",
        f"the supervisor: expected an answer, found {found}",
        hint=hint,
    )

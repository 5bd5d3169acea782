"""Answers the gate's question over a Unix socket, signed with the supervisor's own key, and dispatches runs.

Knows who asks by the kernel's account (SO_PEERCRED) and answers the users that it was told, nobody else.
Reads its key and the manifest once, at its start. What a dispatch does is in dispatching.py.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
import threading
from dataclasses import dataclass, replace
from pathlib import Path

from orchestrator.core.canonical import sha256_hex
from orchestrator.core.clock import unix_time_s
from orchestrator.core.errors import MemtrialError, UsageError
from orchestrator.core.keys import SigningKey
from orchestrator.core.strictjson import parse_json
from orchestrator.gateway.keys import ProviderKeys
from orchestrator.model.dispatch import DispatchAsked
from orchestrator.model.gate import ANSWER_TYPE, GateConfig, SupervisorAnswer, SupervisorQuestion
from orchestrator.pipeline.gating import asked_for
from orchestrator.supervisor.dispatching import Lines, Means, serve_dispatch
from orchestrator.trust.envelope import sign_new
from orchestrator.trust.gate.asked import GateAsked
from orchestrator.trust.gate.before import CONFIG
from orchestrator.trust.gate.machine import MANIFEST

MAX_QUESTION_BYTES = 4096
MAX_AT_ONCE = 16
TIMEOUT_S = 5.0
_PEER = struct.Struct("3i")


@dataclass(frozen=True, slots=True)
class Identity:
    """What the supervisor says of itself: by configuration, by its own user, by its installed files."""

    config: GateConfig
    key: SigningKey
    manifest_sha256: str
    allowed_uids: frozenset[int]


def load_identity(system: Path, key: Path, *, allowed_uids: frozenset[int]) -> Identity:
    """Reads what the supervisor is.

    Raises:
        UsageError: another user or another installation runs it, another key, or others can read the key.
        DocumentError: the configuration is no configuration.
    """
    config = GateConfig.parse_canonical((system / CONFIG).read_bytes(), where=CONFIG)
    if os.geteuid() != config.supervisor_uid:
        raise UsageError(
            "supervisor-as-another-user",
            f"expected to run as uid {config.supervisor_uid}, found uid {os.geteuid()}",
            hint="start it as its own user: docs/security/supervisor.md",
        )
    if Path(sys.prefix) != Path(config.supervisor_prefix):
        raise UsageError(
            "supervisor-from-elsewhere",
            f"expected to run from {config.supervisor_prefix}, whose files the approvals name, found {sys.prefix}",
            hint="start the program that is installed there",
        )
    signing = SigningKey.load(key)
    if signing.public.keyid != config.supervisor_keyid:
        raise UsageError(
            "supervisor-key-unknown",
            f"expected key {config.supervisor_keyid[:16]}, found {signing.public.keyid[:16]}",
            hint="give the key that the trust root names",
        )
    manifest_sha256 = sha256_hex((system / MANIFEST).read_bytes())
    return Identity(config, signing, manifest_sha256, allowed_uids)


def answer(identity: Identity, question: bytes) -> bytes:
    """Returns the signed answer to one question.

    Raises:
        DocumentError: it is no question.
    """
    asked = SupervisorQuestion.parse_canonical(question, where="question")
    payload = SupervisorAnswer(
        challenge=asked.challenge,
        approval_sha256=asked.approval_sha256,
        plan_sha256=asked.plan_sha256,
        identity=identity.config.supervisor_identity,
        uid=os.geteuid(),
        manifest_sha256=identity.manifest_sha256,
        answered_s=int(unix_time_s()),
        asserted=("caller-cannot-read-keys", "runs-the-manifest"),
    )
    return sign_new(payload.canonical(), (identity.key,), payload_type=ANSWER_TYPE)


def means_of(
    identity: Identity, keys: ProviderKeys, *, system: Path, repository: Path, sockets: Path
) -> Means:
    """Returns what this supervisor dispatches runs with; its own gate gets its own answer."""

    def challenge(nonce: str, approval_sha256: str, plan_sha256: str) -> bytes:
        question = SupervisorQuestion(
            challenge=nonce, approval_sha256=approval_sha256, plan_sha256=plan_sha256
        )
        return answer(identity, question.canonical())

    def asked(plan_data: bytes, approval_id: str, run_id: str) -> GateAsked:
        found = asked_for(
            plan_data, approval_id, repository=repository, system=system, run_id=run_id
        )
        return replace(found, challenge=challenge)

    state = Path(identity.config.supervisor_state)
    return Means(asked=asked, keys=keys, state=state, sockets=sockets)


class Service:
    """The socket and those who serve it."""

    def __init__(self, identity: Identity, path: Path, means: Means | None = None) -> None:
        """Listens. Without means it answers the gate and dispatches nothing.

        Raises:
            UsageError: something is at that path already.
        """
        self._identity = identity
        self._means = means
        self._places = threading.BoundedSemaphore(MAX_AT_ONCE)
        if path.exists() or path.is_symlink():
            raise UsageError(
                "socket-taken",
                f"{path}: expected nothing there, found something",
                hint="end the other supervisor, or remove what it left",
            )
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._path = path
        self._listener.bind(str(path))
        # Anybody may knock; who is answered is decided by the kernel's account of the caller.
        path.chmod(0o666)
        self._listener.listen(MAX_AT_ONCE)

    def serve(self) -> None:
        """Serves until `close`."""
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            if not self._places.acquire(blocking=False):
                connection.close()
                continue
            threading.Thread(target=self._one, args=(connection,), daemon=True).start()

    def _one(self, connection: socket.socket) -> None:
        try:
            with connection:
                connection.settimeout(TIMEOUT_S)
                if peer_uid(connection) in self._identity.allowed_uids:
                    self._reply(connection)
        except (OSError, MemtrialError):
            # A caller that breaks off or asks nonsense gets nothing, and nobody else notices.
            return
        finally:
            self._places.release()

    def _reply(self, connection: socket.socket) -> None:
        lines = Lines(connection)
        line = lines.line(MAX_QUESTION_BYTES)
        if line is None:
            return
        value = parse_json(line, where="question", max_bytes=MAX_QUESTION_BYTES)
        if isinstance(value, dict) and value.get("kind") == "dispatch" and self._means is not None:
            order = DispatchAsked.parse_canonical(line, where="dispatch")
            serve_dispatch(connection, order, lines, self._means)
            return
        connection.sendall(answer(self._identity, line) + b"\n")

    def close(self) -> None:
        """Ends the service and removes its socket."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._path.unlink(missing_ok=True)


def peer_uid(connection: socket.socket) -> int:
    """Returns the user of the process at the other end, by the kernel's account (unix(7), SO_PEERCRED)."""
    data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    _, uid, _ = _PEER.unpack(data)
    return int(uid)

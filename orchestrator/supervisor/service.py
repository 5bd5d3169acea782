"""Answers the gate's question over a Unix socket, signed with the supervisor's own key, and dispatches runs.

Knows who asks by the kernel's account (SO_PEERCRED) and answers the users that it was told, nobody else.
Reads its key and the manifest once, at its start. What a dispatch does is in dispatching.py.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from orchestrator.core.canonical import sha256_hex
from orchestrator.core.clock import unix_time_s
from orchestrator.core.errors import MemtrialError, UsageError
from orchestrator.core.keys import SigningKey
from orchestrator.core.peer import peer_uid
from orchestrator.core.printable import printable
from orchestrator.core.sockets import listen_at
from orchestrator.core.strictjson import parse_json
from orchestrator.gateway.keys import ProviderKeys
from orchestrator.model.dispatch import DispatchAsked
from orchestrator.model.gate import ANSWER_TYPE, GateConfig, SupervisorAnswer, SupervisorQuestion
from orchestrator.pipeline.gating import asked_for
from orchestrator.supervisor.dispatching import Means, serve_dispatch
from orchestrator.supervisor.lines import Lines
from orchestrator.supervisor.peers import Places
from orchestrator.trust.envelope import sign_new
from orchestrator.trust.gate.asked import GateAsked
from orchestrator.trust.gate.before import CONFIG
from orchestrator.trust.gate.machine import MANIFEST

MAX_QUESTION_BYTES = 4096
# Connections of one user at once. Others have places of their own.
MAX_OF_ONE_USER = 16
BACKLOG = 64
# How long to wait when the system lets nobody in, in seconds.
AGAIN_S = 0.5
MAX_LOG_CHARS = 500


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


def _say(line: str) -> None:
    sys.stderr.write(f"supervisor: {printable(line, limit=MAX_LOG_CHARS)}\n")
    sys.stderr.flush()


class Service:
    """The socket and those who serve it."""

    def __init__(
        self,
        identity: Identity,
        path: Path,
        means: Means | None = None,
        *,
        say: Callable[[str], object] = _say,
    ) -> None:
        """Listens. Without means it answers the gate and dispatches nothing.

        Args:
            identity: what it says of itself, and whom it answers.
            path: of its socket.
            means: what runs are dispatched with.
            say: takes a line of the service's log.

        Raises:
            UsageError: something is at that path already that is not a socket which a dead supervisor left.
        """
        self._identity = identity
        self._means = means
        self._say = say
        self._places = Places(MAX_OF_ONE_USER)
        self._ended = threading.Event()
        # Anybody may knock; who is answered is decided by the kernel's account of the caller.
        self._listener = listen_at(path, backlog=BACKLOG)
        self._path = path

    def serve(self) -> None:
        """Serves until `close`, whatever the system refuses meanwhile."""
        failed = False
        while not self._ended.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError as error:
                if self._ended.is_set():
                    return
                # No descriptors or no memory are left, say: those who wait are served when there are some again.
                if not failed:
                    self._say(f"nobody can be let in: {error.strerror or error}; trying on")
                failed = True
                self._ended.wait(AGAIN_S)
                continue
            if failed:
                self._say("callers are let in again")
            failed = False
            self._let_in(connection)

    def _let_in(self, connection: socket.socket) -> None:
        """Serves a caller beside the others, or shows them the door."""
        try:
            uid = peer_uid(connection)
        except OSError:
            connection.close()
            return
        if uid not in self._identity.allowed_uids:
            connection.close()
            return
        if not self._places.take(uid):
            self._say(
                f"uid {uid} has {MAX_OF_ONE_USER} connections already: another one is refused"
            )
            connection.close()
            return
        try:
            threading.Thread(target=self._one, args=(connection, uid), daemon=True).start()
        except RuntimeError as error:
            self._say(f"uid {uid} cannot be served: {error}")
            self._places.give_back(uid)
            connection.close()

    def _one(self, connection: socket.socket, uid: int) -> None:
        try:
            with connection:
                self._reply(Lines(connection), uid)
        except (OSError, MemtrialError) as error:
            # A caller that breaks off, dawdles or asks nonsense gets nothing, and nobody else notices.
            self._say(f"uid {uid} was served no further: {error}")
        finally:
            self._places.give_back(uid)

    def _reply(self, lines: Lines, uid: int) -> None:
        line = lines.line(MAX_QUESTION_BYTES)
        if line is None:
            return
        value = parse_json(line, where="question", max_bytes=MAX_QUESTION_BYTES)
        if isinstance(value, dict) and value.get("kind") == "dispatch" and self._means is not None:
            order = DispatchAsked.parse_canonical(line, where="dispatch")
            about = f"run {order.run_id} under approval {order.approval_id}, for uid {uid}"
            self._say(f"asked to dispatch {about}")
            refused = serve_dispatch(order, lines, self._means, uid)
            self._say(f"refused {refused.reference}: {about}" if refused else f"done with {about}")
            return
        lines.answer(answer(self._identity, line) + b"\n")

    def close(self) -> None:
        """Ends the service and removes its socket."""
        self._ended.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._path.unlink(missing_ok=True)

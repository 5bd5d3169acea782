"""Asks the supervisor over its Unix socket; the one way to it. Opens no network socket.

One line of JSON each way; sizes and times are bounded. Whether the answer holds is for the gate.
"""

from __future__ import annotations

import socket
import time
from pathlib import Path

from orchestrator.core.errors import ApprovalRefused
from orchestrator.model.gate import SupervisorQuestion

SOCKET = Path("/run/memtrial/supervisor.sock")
MAX_ANSWER_BYTES = 64 * 1024
TIMEOUT_S = 10.0


def ask_supervisor(
    challenge: str, approval_sha256: str, plan_sha256: str, *, path: Path = SOCKET
) -> bytes:
    """Sends the gate's question and returns the signed answer, unverified.

    Raises:
        ApprovalRefused: nobody answers at the socket.
    """
    question = SupervisorQuestion(
        challenge=challenge, approval_sha256=approval_sha256, plan_sha256=plan_sha256
    ).canonical()
    data = b""
    # One deadline for everything: an answer that trickles in holds nobody up longer than one that never comes.
    deadline_s = time.monotonic() + TIMEOUT_S
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(TIMEOUT_S)
            connection.connect(str(path))
            connection.sendall(question + b"\n")
            while not data.endswith(b"\n") and len(data) <= MAX_ANSWER_BYTES:
                left_s = deadline_s - time.monotonic()
                if left_s <= 0:
                    raise TimeoutError(f"no whole answer within {TIMEOUT_S:.0f} s")
                connection.settimeout(left_s)
                piece = connection.recv(65536)
                if not piece:
                    break
                data += piece
    except OSError as error:
        raise ApprovalRefused(
            "supervisor-unreachable",
            f"expected the supervisor at {path}, found {error.strerror or error}",
            hint="start it, and have it answer this user, as docs/security/supervisor.md says",
        ) from error
    return data.removesuffix(b"\n")

"""Lines over a connection, each with one deadline from its first byte to its last, so that nobody slow holds a place.

A deadline bounds a message and not a piece of it: who sends a byte at a time is as late as who sends nothing.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence

from orchestrator.core.errors import DocumentError

MAX_ORDER_BYTES = 64 * 1024
# For a whole line, and for a whole answer to be taken; in seconds.
LINE_TIMEOUT_S = 5.0
SEND_TIMEOUT_S = 30.0
# For a plan that was announced, in seconds.
PLAN_TIMEOUT_S = 60.0


class Lines:
    """Reads lines and counted bytes from a connection, and answers on it."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._read = bytearray()

    def line(
        self, max_bytes: int = MAX_ORDER_BYTES, *, waits_for_first_byte: bool = False
    ) -> bytes | None:
        """Returns the next line without its end; None when the other side is done.

        Args:
            max_bytes: upper bound of its length.
            waits_for_first_byte: whether the other side may be silent for as long as it likes before it begins.

        Raises:
            DocumentError: the line is too long.
            TimeoutError: it was not whole in time.
        """
        patient = waits_for_first_byte and not self._read
        deadline_s = None if patient else time.monotonic() + LINE_TIMEOUT_S
        while b"\n" not in self._read:
            if len(self._read) > max_bytes:
                raise DocumentError("order-malformed", "expected a short line", hint="end")
            piece = self._receive(65536, deadline_s)
            if not piece:
                return None
            self._read += piece
            deadline_s = deadline_s or time.monotonic() + LINE_TIMEOUT_S
        line, _, rest = bytes(self._read).partition(b"\n")
        self._read = bytearray(rest)
        return line

    def exactly(self, size: int) -> bytes:
        """Returns so many bytes.

        Raises:
            DocumentError: the other side ended before.
            TimeoutError: they were not there in time.
        """
        deadline_s = time.monotonic() + PLAN_TIMEOUT_S
        while len(self._read) < size:
            piece = self._receive(min(1 << 20, size - len(self._read)), deadline_s)
            if not piece:
                raise DocumentError("plan-cut", f"expected {size} bytes, found fewer", hint="end")
            self._read += piece
        data = bytes(self._read[:size])
        del self._read[:size]
        return data

    def _receive(self, size: int, deadline_s: float | None) -> bytes:
        left_s = None if deadline_s is None else deadline_s - time.monotonic()
        if left_s is not None and left_s <= 0:
            raise TimeoutError("the message was not whole in time")
        self._connection.settimeout(left_s)
        return self._connection.recv(size)

    def answer(self, data: bytes, handles: Sequence[int] = ()) -> None:
        """Sends a whole answer, with descriptors beside its first byte.

        Raises:
            OSError: the other side is gone, or did not take it in time.
        """
        self._connection.settimeout(SEND_TIMEOUT_S)
        sent = socket.send_fds(self._connection, [data], handles) if handles else 0
        # To send nothing fails too, when the other side took all and went.
        if sent < len(data):
            self._connection.sendall(data[sent:])

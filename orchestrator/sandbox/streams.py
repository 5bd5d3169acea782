"""The attached stream of a container: frames in, bounded output and single JSON lines out.

The engine multiplexes stdout and stderr with an 8-byte header per chunk (Docker Engine API,
"Attach to a container": stream type, three zero bytes, big-endian length). Every wait has a deadline.
"""

from __future__ import annotations

import json
import socket
import struct
import time
from typing import Any

from orchestrator.core.errors import IntegrityError, MemtrialError
from orchestrator.core.strictjson import parse_json
from orchestrator.core.waiting import readable

STDOUT = 1
STDERR = 2
_HEADER = struct.Struct(">BxxxL")
_READ_BYTES = 65_536


class DeadlinePassed(Exception):
    """Nothing more may be waited for."""


class Stream:
    """One hijacked connection. Not thread-safe; closed by its owner."""

    def __init__(self, raw: Any) -> None:
        # The client hands out a SocketIO; its socket is the only way to wait with a deadline.
        self._owner = raw
        self._socket: socket.socket = getattr(raw, "_sock", raw)
        self._socket.settimeout(None)
        self._pending = bytearray()
        self.stderr_tail = bytearray()

    def close(self) -> None:
        """Closes the connection."""
        self._owner.close()
        self._socket.close()

    def send_frame(self, value: dict[str, object]) -> None:
        """Sends one frame: length in decimal, a newline, JSON.

        Raises:
            OSError: the container no longer listens.
        """
        data = json.dumps(value).encode()
        self._socket.sendall(b"%d\n" % len(data) + data)

    def send_bytes(self, data: bytes) -> None:
        """Sends bytes as they are.

        Raises:
            OSError: the container no longer listens.
        """
        self._socket.sendall(data)

    def chunk(self, deadline_s: float) -> tuple[int, bytes] | None:
        """Returns the next (stream number, bytes), or None at the end of the stream.

        Args:
            deadline_s: an instant of `time.monotonic()`.

        Raises:
            DeadlinePassed: the deadline came first.
        """
        header = self._take(_HEADER.size, deadline_s)
        if header is None:
            return None
        number, length = _HEADER.unpack(header)
        body = self._take(length, deadline_s)
        return None if body is None else (number, body)

    def line(self, deadline_s: float, *, max_bytes: int, who: str) -> dict[str, Any]:
        """Returns one line of stdout as a JSON object; stderr is kept for error texts.

        Raises:
            DeadlinePassed: the deadline came first.
            MemtrialError: the program ended or said something else.
        """
        collected = bytearray()
        while not collected.endswith(b"\n"):
            piece = self.chunk(deadline_s)
            if piece is None:
                raise _silent(who, bytes(self.stderr_tail))
            number, body = piece
            if number == STDERR:
                self.stderr_tail += body
                del self.stderr_tail[:-4000]
            else:
                collected += body
            if len(collected) > max_bytes:
                raise IntegrityError(
                    "answer-too-large",
                    f"{who}: expected an answer of at most {max_bytes} bytes, found more",
                    hint="run `memtrial resume`; if it happens again, report it",
                )
        value = parse_json(bytes(collected), where=f"answer of {who}", max_bytes=max_bytes)
        if not isinstance(value, dict):
            raise _silent(who, bytes(collected[:200]))
        return value

    def _take(self, count: int, deadline_s: float) -> bytes | None:
        while len(self._pending) < count:
            wait_s = deadline_s - time.monotonic()
            if wait_s <= 0 or not readable(self._socket, wait_s):
                raise DeadlinePassed
            data = self._socket.recv(_READ_BYTES)
            if not data:
                return None
            self._pending += data
        taken = bytes(self._pending[:count])
        del self._pending[:count]
        return taken


def _silent(who: str, words: bytes) -> MemtrialError:
    said = words.decode("utf-8", "replace").strip() or "nothing"
    return IntegrityError(
        "trusted-program-failed",
        f"{who}: expected one JSON line, found the end of its output; it said: {said}",
        hint="run `memtrial doctor`; `memtrial resume` repeats the trial",
    )

"""Carries connections of a Unix socket over this container's own standard input and output.

For engines that cannot share a socket of the orchestrator's machine: the socket lies in a volume of the
engine, and the bytes travel over the attached stream. Frames: connection, kind (open, data, end, closed)
and length as big-endian numbers, then the bytes. Reads none of them. Standard library only; the
container has no network, and holds no key and no token of its own.
"""

from __future__ import annotations

import contextlib
import signal
import socket
import struct
import sys
import threading
from pathlib import Path

HEAD = struct.Struct(">IBI")
OPEN, DATA, END, CLOSED = range(4)
READ_BYTES = 65_536


class Relay:
    """The open connections, and the one way out for all of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[int, socket.socket] = {}

    def say(self, number: int, kind: int, data: bytes = b"") -> None:
        """Writes one frame."""
        with self._lock:
            sys.stdout.buffer.write(HEAD.pack(number, kind, len(data)) + data)
            sys.stdout.buffer.flush()

    def accept(self, server: socket.socket) -> None:
        """Takes connections for ever."""
        number = 0
        while True:
            client, _ = server.accept()
            number += 1
            self._open[number] = client
            self.say(number, OPEN)
            threading.Thread(target=self.read, args=(number, client), daemon=True).start()

    def read(self, number: int, client: socket.socket) -> None:
        """Carries what a client says to its end."""
        with contextlib.suppress(OSError):
            while data := client.recv(READ_BYTES):
                self.say(number, DATA, data)
        self.say(number, END)

    def hear(self, number: int, kind: int, data: bytes) -> None:
        """Carries what the gateway says to a client."""
        client = self._open.get(number)
        if client is None:
            return
        with contextlib.suppress(OSError):
            if kind == DATA:
                client.sendall(data)
            elif kind == END:
                client.shutdown(socket.SHUT_WR)
        if kind == CLOSED:
            with contextlib.suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)
            client.close()
            del self._open[number]


def main() -> int:
    """Serves until standard input ends."""
    signal.alarm(int(sys.argv[2]))
    path = Path(sys.argv[1])
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(path))
    path.chmod(0o666)
    server.listen(256)
    relay = Relay()
    sys.stdout.buffer.write(b'{"ready": true}\n')
    sys.stdout.buffer.flush()
    threading.Thread(target=relay.accept, args=(server,), daemon=True).start()
    while len(head := sys.stdin.buffer.read(HEAD.size)) == HEAD.size:
        number, kind, length = HEAD.unpack(head)
        relay.hear(number, kind, sys.stdin.buffer.read(length))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

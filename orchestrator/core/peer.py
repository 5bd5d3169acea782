"""Who is at the other end of a Unix socket, by the kernel's account. Linux only."""

from __future__ import annotations

import socket
import struct
from typing import Protocol

_CREDENTIALS = struct.Struct("3i")


class _Asked(Protocol):
    def getsockopt(self, level: int, name: int, size: int, /) -> bytes: ...


def peer_uid(connection: _Asked) -> int:
    """Returns the user of the process that connected (unix(7), SO_PEERCRED).

    Raises:
        OSError: the other side is gone, or this is no Unix socket.
    """
    data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, uid, _ = _CREDENTIALS.unpack(data)
    return int(uid)

"""Waits until something can be read from a file, a pipe, a terminal or a socket, at most so long.

By poll: select cannot look at descriptors from 1,024 on, which a process with many trials has.
"""

from __future__ import annotations

import math
import select
from typing import Protocol


class HasDescriptor(Protocol):
    """Anything with an open descriptor."""

    def fileno(self) -> int:
        """Returns the descriptor."""


def readable(source: HasDescriptor | int, wait_s: float) -> bool:
    """Returns whether a read would not block: there are bytes, or the end was reached.

    Args:
        source: a descriptor, or an object that has one.
        wait_s: how long to wait at most, in seconds; 0 looks once.
    """
    poll = select.poll()
    poll.register(source, select.POLLIN)
    return bool(poll.poll(math.ceil(max(0.0, wait_s) * 1000)))

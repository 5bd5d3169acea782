"""Tells a container's own end from the end that a stop gave it.

A stop puts the flag up before it kills anything. Whoever waits for a container looks at the flag before it
says a word about the container's end: what a stop ended is cancelled, never a result. Reads and writes
nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from orchestrator.core.errors import Cancelled, MemtrialError


class StopFlag:
    """Put up once, for good. Shared by all containers of a sandbox."""

    def __init__(self) -> None:
        self._up = threading.Event()

    def put_up(self) -> None:
        """From now on nothing that a container did is its own doing."""
        self._up.set()

    @property
    def is_up(self) -> bool:
        """Whether a stop came."""
        return self._up.is_set()

    def wait(self, seconds: float) -> bool:
        """Waits for a stop, at most so long; tells whether one came."""
        return self._up.wait(seconds)

    def check(self, doing: str) -> None:
        """Refuses to go on after a stop.

        Raises:
            Cancelled: the flag is up.
        """
        if self._up.is_set():
            raise _cancelled(doing)

    @contextmanager
    def guard(self, doing: str) -> Iterator[None]:
        """Lets nothing of the block out after a stop, neither its result nor its error.

        Args:
            doing: what goes on in the block, to follow "interrupted while".

        Raises:
            Cancelled: the flag is up before, in or right after the block.
        """
        self.check(doing)
        try:
            yield
        except (MemtrialError, OSError, ValueError) as error:
            if self._up.is_set():
                raise _cancelled(doing) from error
            raise
        self.check(doing)


def _cancelled(doing: str) -> Cancelled:
    return Cancelled(
        "trial-interrupted",
        f"interrupted while {doing}",
        hint="`memtrial resume` repeats the trial",
    )

"""Closes the way to package indexes and upstreams for a while: what is not in the cache is missing then.

The gate measures what a run is made from without a network, and a dry run fetches nothing. Holds for the
thread that asked for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from orchestrator.core.errors import EnvironmentMissing

_CLOSED: ContextVar[bool] = ContextVar("closed", default=False)


class NotAtHand(EnvironmentMissing):
    """The cache lacks something, and nothing may be fetched."""


@contextmanager
def closed() -> Iterator[None]:
    """Refuses every download within the block."""
    token = _CLOSED.set(True)
    try:
        yield
    finally:
        _CLOSED.reset(token)


def check_open(what: str) -> None:
    """Refuses a download while the way is closed.

    Raises:
        NotAtHand: it is; nothing was asked of any network.
    """
    if _CLOSED.get():
        raise NotAtHand(
            "not-in-cache",
            f"{what}: expected it in the cache, for this is done without a network, found none",
            hint="fill the cache with `memtrial images`, or copy downloads/ and layers/ of a filled one into this user's (~/.cache/memtrial)",
        )

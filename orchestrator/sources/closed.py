"""Closes the way to package indexes and upstreams for a while: what is not in the cache is missing then.

The gate measures what a run is made from without a network. Holds for the thread that asked for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from orchestrator.core.errors import EnvironmentMissing

_CLOSED: ContextVar[bool] = ContextVar("closed", default=False)


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
        EnvironmentMissing: it is; nothing was asked of any network.
    """
    if _CLOSED.get():
        raise EnvironmentMissing(
            "not-in-cache",
            f"{what}: expected it in the cache, for this is done without a network, found none",
            hint="copy downloads/ and layers/ of a filled cache into this user's (~/.cache/memtrial)",
        )

"""Forbids fetching for a while: what the cache lacks is then said to be missing, and no index is asked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from orchestrator.core.errors import EnvironmentMissing

_ONLY_CACHE: ContextVar[bool] = ContextVar("only_cache", default=False)


class NotAtHand(EnvironmentMissing):
    """The cache lacks something, and nothing may be fetched."""


@contextmanager
def only_from_cache() -> Iterator[None]:
    """Forbids fetching inside the block."""
    token = _ONLY_CACHE.set(True)
    try:
        yield
    finally:
        _ONLY_CACHE.reset(token)


def may_fetch(what: str) -> None:
    """Says that something is about to be fetched.

    Raises:
        NotAtHand: nothing may be.
    """
    if _ONLY_CACHE.get():
        raise NotAtHand(
            "not-at-hand",
            f"expected {what} in the cache, found it neither there nor allowed to be fetched",
            hint="make a real plan, or run `memtrial images`",
        )

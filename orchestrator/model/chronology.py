"""Times of one history: in one form, so that text sorts as time does, and in an order that can have been. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

Named = tuple[str, str]
"""What happened, by its name for people, and when (RFC 3339, UTC)."""

_WHOLE_SECONDS: Final = len("2026-01-05T09:00:00Z")
_MICROSECONDS: Final = "2026-01-05T09:00:00.000000Z"


def check_unique(ids: Iterable[str], what: str) -> None:
    """Refuses an id that is given twice.

    Raises:
        ValueError: one is; the text names it.
    """
    twice = [name for name, times in Counter(ids).items() if times > 1]
    if twice:
        raise ValueError(f"{what} ids must be unique: expected each once, found {twice[0]} again")


def check_one_form(times: Sequence[Named]) -> None:
    """Refuses times with unlike numbers of fractional digits: `09:00:00.500Z` sorts before `09:00:00Z`.

    Raises:
        ValueError: one is of another form than the first; the text names both.
    """
    for name, at in times[1:]:
        first, like = times[0]
        if len(at) != len(like):
            raise ValueError(
                "the times of one history must have the same number of fractional digits: expected "
                f"{_digits(like)} in {name} as in {first} ({like}), found {_digits(at)} ({at})"
            )


def check_order(times: Sequence[Named], what: str) -> None:
    """Refuses what comes before what it stands after. The times are of one form.

    Raises:
        ValueError: something does; the text names it.
    """
    for (before, since), (name, at) in pairwise(times):
        if at < since:
            raise ValueError(
                f"{what} must be in chronological order: expected {name} not before {before} ({since}), found {at}"
            )


def check_start(session: str, started_at: str, first: Named) -> None:
    """Refuses a session that began after its first event. The times are of one form.

    Raises:
        ValueError: it did.
    """
    name, at = first
    if started_at > at:
        raise ValueError(
            f"{session} must have started before its events: expected started_at not after {at} ({name}), found {started_at}"
        )


def in_form_of(at: str, like: str) -> str:
    """Returns a time with as many fractional digits as another, cut or filled with zeros.

    What is not after the one is not after the other, among times of that form.
    """
    digits = _digits(like)
    whole, _, fraction = at.removesuffix("Z").partition(".")
    return f"{whole}.{fraction[:digits].ljust(digits, '0')}Z" if digits else f"{whole}Z"


def sortable(at: str) -> str:
    """Returns a time to the microsecond: such times sort as text, whatever form they had."""
    return in_form_of(at, _MICROSECONDS)


def _digits(at: str) -> int:
    return max(0, len(at) - _WHOLE_SECONDS - 1)

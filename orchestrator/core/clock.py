"""Time at the edge: wall time as RFC 3339 text in UTC, durations from the monotonic clock.

The only module that asks the system for the time.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime


def utc_now_text() -> str:
    """Returns the present time as `YYYY-MM-DDTHH:MM:SS.mmmZ`."""
    now = datetime.fromtimestamp(time.time(), tz=UTC)
    return now.strftime("%Y-%m-%dT%H:%M:%S.") + f"{now.microsecond // 1000:03d}Z"


def run_stamp() -> str:
    """Returns the present time as `YYYYMMDDTHHMMSSZ`, for names that sort."""
    return datetime.fromtimestamp(time.time(), tz=UTC).strftime("%Y%m%dT%H%M%SZ")


def unix_time_s() -> float:
    """Returns the present time in seconds since 1970."""
    return time.time()


def unix_time_text() -> str:
    """Returns the present time in seconds since 1970 with six decimals, as an engine's events have it."""
    return f"{time.time():.6f}"


def monotonic_ms() -> int:
    """Returns milliseconds of the monotonic clock; only differences mean anything."""
    return time.monotonic_ns() // 1_000_000


def utc_text_of(seconds: int) -> str:
    """Returns whole seconds since 1970 as `YYYY-MM-DDTHH:MM:SS.000Z`, which sorts with `utc_now_text`.

    Raises:
        ValueError: past the year 9999.
    """
    return datetime.fromtimestamp(seconds, tz=UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")


def utc_seconds(text: str) -> float:
    """Returns seconds since 1970 of an RFC 3339 time in UTC.

    Raises:
        ValueError: not such a time.
    """
    time_read = datetime.fromisoformat(text)
    if time_read.tzinfo is None:
        raise ValueError(f"expected a time with its zone, found {text!r}")
    return time_read.timestamp()

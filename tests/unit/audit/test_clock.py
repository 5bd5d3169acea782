"""Promise: that the clock went back is told by times and not by how they are written."""

from __future__ import annotations

import pytest

from orchestrator.audit.rules import clock_back
from orchestrator.model.record import LedgerEntry, RunResumed


def entries(*times: str) -> list[LedgerEntry]:
    return [
        LedgerEntry(seq=n, prev_sha256="0" * 64, at=at, body=RunResumed(torn_tail_bytes=0))
        for n, at in enumerate(times)
    ]


@pytest.mark.parametrize(
    ("times", "back"),
    [
        (("2026-01-01T00:00:00.001Z", "2026-01-01T00:00:00.001Z"), 0),
        (("2026-01-01T00:00:00.002Z", "2026-01-01T00:00:00.001Z"), 1),
        (("2026-01-01T00:00:00Z", "2026-01-01T00:00:00.500Z"), 0),
        (("2026-01-01T00:00:00.500Z", "2026-01-01T00:00:00Z"), 1),
        (("2026-01-01T00:00:00.5Z", "2026-01-01T00:00:00.500001Z", "2026-01-01T00:00:00.50Z"), 1),
    ],
)
def test_a_time_before_the_one_before_it_is_counted(times, back):
    assert clock_back(entries(*times)) == back

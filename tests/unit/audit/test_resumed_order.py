"""Promise: what a resumption closes is taken in the order in which the pipeline closes it, and in no other."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from orchestrator.audit.rules import DIED, check_order
from orchestrator.core.errors import IntegrityError
from orchestrator.model.outcome import Outcome
from orchestrator.model.record import (
    AttemptEnded,
    AttemptStarted,
    LedgerEntry,
    RunEnded,
    RunResumed,
    RunStarted,
)

FIRST, SECOND = "t/c/a/e1", "t/c/b/e1"
PLAN: Any = SimpleNamespace(
    trials=(SimpleNamespace(key=FIRST), SimpleNamespace(key=SECOND)),
    retry=SimpleNamespace(max_attempts=2),
    gateway=None,
)


def ended(trial: str, attempt: int, outcome: Outcome, reference: str) -> AttemptEnded:
    return AttemptEnded(
        trial=trial,
        attempt=attempt,
        outcome=outcome,
        verdict_sha256=None,
        error_reference=reference,
        error="lost",
        wall_ms=0,
        container_ms=0,
    )


# Two workers: the first trial breaks and begins again while the second is under way; then the process dies.
BROKEN_OFF: list[Any] = [
    RunStarted(run_id="r", plan_sha256="0" * 64, engine="e", workers=2),
    AttemptStarted(trial=FIRST, attempt=1),
    AttemptStarted(trial=SECOND, attempt=1),
    ended(FIRST, 1, Outcome.INFRA_ERROR, "engine-lost"),
    AttemptStarted(trial=FIRST, attempt=2),
    RunResumed(torn_tail_bytes=0),
]
CLOSED = [ended(FIRST, 2, Outcome.CANCELLED, DIED), ended(SECOND, 1, Outcome.CANCELLED, DIED)]
LAST = RunEnded(trials=2, completed=0, wall_ms=1)


def entries(*closed: AttemptEnded) -> list[LedgerEntry]:
    return [
        LedgerEntry(seq=n, prev_sha256="0" * 64, at="2026-01-01T00:00:00Z", body=body)
        for n, body in enumerate([*BROKEN_OFF, *closed, LAST])
    ]


def test_the_dead_are_closed_in_the_order_in_which_their_trials_were_first_begun():
    assert check_order(entries(*CLOSED), PLAN).ended


def test_another_order_is_none_that_the_pipeline_writes():
    with pytest.raises(IntegrityError, match="died with its process"):
        check_order(entries(*reversed(CLOSED)), PLAN)

"""Promise: a step that hangs is left behind, what it holds is let go, and no other step follows it."""

from __future__ import annotations

import threading

import pytest

from orchestrator.memory.faults import AdapterFault
from orchestrator.memory.life import Limits
from orchestrator.memory.watchdog import Watchdog
from orchestrator.model.lifecycle import ExtractionReport, Step
from tests.unit.memory.lives import arm, life_of, said
from tests.unit.testing import planted


def test_after_a_hang_no_step_follows_on_that_thread():
    release = threading.Event()
    watchdog = Watchdog()
    with pytest.raises(AdapterFault, match=r"within 0\.05 s"):
        watchdog.call(release.wait, 0.05)
    assert watchdog.hung
    with pytest.raises(AdapterFault, match="none can follow"):
        watchdog.call(lambda: 1, 5.0)
    release.set()
    watchdog.end()


def test_a_system_that_hangs_is_closed_and_its_thread_comes_back():
    release, closed = threading.Event(), threading.Event()

    class Stuck(planted.Sound):
        def settle(self, deadline_s: int) -> ExtractionReport:
            release.wait(60)
            return super().settle(deadline_s)

        def close(self) -> None:
            closed.set()
            release.set()

    limits = Limits(step_s=4.0, settle_s=0)
    remembered = life_of(Stuck(), arm("full_history"), said("x"), limits=limits)
    assert remembered.failure is not None
    assert (remembered.failure.step, remembered.failure.kind) == (Step.SETTLE, "timed_out")
    assert closed.is_set()
    assert remembered.steps[-1].step is Step.CLOSE
    assert remembered.steps[-1].failure is None

"""Promise: waits between attempts grow, are jittered and bounded, and end when the run is stopped."""

from __future__ import annotations

import threading

from hypothesis import given
from hypothesis import strategies as st
from tenacity import RetryCallState

from orchestrator.model.plan import Retry
from orchestrator.pipeline.retry import RETRY, retrying


def wait_ms(policy: Retry, attempt: int) -> float:
    call = retrying(policy, threading.Event(), bool)
    state = RetryCallState(call, None, (), {})
    state.attempt_number = attempt
    return call.wait(state) * 1000


@given(st.integers(1, 12))
def test_the_wait_is_the_formula_of_the_policy(attempt):
    policy = Retry(max_attempts=10, wait_initial_ms=500, wait_max_ms=20_000, wait_jitter_ms=100)
    plain = 500 * 2 ** (attempt - 1)
    assert min(plain, 20_000) <= wait_ms(policy, attempt) + 1e-6
    assert wait_ms(policy, attempt) <= min(plain + 100, 20_000) + 1e-6


def test_two_waits_differ_by_their_jitter():
    assert len({wait_ms(RETRY, 1) for _ in range(20)}) > 1


def test_a_stopped_run_waits_no_longer_and_tries_no_more():
    stop = threading.Event()
    policy = Retry(max_attempts=10, wait_initial_ms=600_000, wait_max_ms=600_000, wait_jitter_ms=0)
    tried = []

    def work():
        tried.append(1)
        threading.Timer(0.05, stop.set).start()
        return True

    assert retrying(policy, stop, bool)(work) is True
    # One more call may follow the wait that was cut short; none after it.
    assert len(tried) <= 2

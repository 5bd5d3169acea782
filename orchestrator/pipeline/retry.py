"""The retry policy of a plan as a `tenacity` object: what is tried again, how often, after which wait.

Pure but for the sleeping, which ends at once when the run is stopped.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_result,
    sleep_using_event,
    stop_after_attempt,
    stop_when_event_set,
    wait_exponential_jitter,
)

from orchestrator.model.plan import Retry

RETRY = Retry(max_attempts=3, wait_initial_ms=2_000, wait_max_ms=60_000, wait_jitter_ms=1_000)
"""What every plan has."""


def retrying(policy: Retry, stop: threading.Event, again: Callable[[Any], bool]) -> Retrying:
    """Returns what calls a function under the policy and gives back its last result.

    Args:
        policy: of the plan; waits in milliseconds.
        stop: ends waiting and further attempts when it is set.
        again: tells whether a result is to be tried again.
    """
    return Retrying(
        retry=retry_if_result(again),
        stop=stop_after_attempt(policy.max_attempts) | stop_when_event_set(stop),
        wait=wait_exponential_jitter(
            multiplier=policy.wait_initial_ms / 1000,
            max=policy.wait_max_ms / 1000,
            jitter=policy.wait_jitter_ms / 1000,
        ),
        sleep=sleep_using_event(stop),
        retry_error_callback=_last_result,
    )


def _last_result(state: RetryCallState) -> object:
    """Nothing is raised when the policy is used up: the last outcome stands."""
    return None if state.outcome is None else state.outcome.result()

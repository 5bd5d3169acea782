"""Measures the wall time during which at least one container step was under way."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager


class StepClock:
    """Union of overlapping steps, over several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._active = 0
        self._since_ns = 0
        self._total_ns = 0

    @contextmanager
    def step(self) -> Iterator[None]:
        """Counts the time of the block, once however many blocks overlap."""
        with self._lock:
            if self._active == 0:
                self._since_ns = time.monotonic_ns()
            self._active += 1
        try:
            yield
        finally:
            with self._lock:
                self._active -= 1
                if self._active == 0:
                    self._total_ns += time.monotonic_ns() - self._since_ns

    def total_ms(self) -> int:
        """Returns the time of all finished steps, in milliseconds."""
        with self._lock:
            return self._total_ns // 1_000_000

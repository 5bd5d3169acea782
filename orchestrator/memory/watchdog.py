"""Runs the steps of a memory system on a thread of its own, each with a limit of time.

The one boundary to code that is not ours inside our process: nothing that an adapter raises, its exit
included, ends a run, and what it raised is put into words within the limit too. A step that hangs is
left behind on a thread that keeps no process alive.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import TypeVar

from orchestrator.core.errors import MemtrialError
from orchestrator.memory.faults import AdapterFault, fault_of

T = TypeVar("T")


class Watchdog:
    """One thread for all steps of one life, so that a system may keep what belongs to a thread.

    Args:
        ours: the adapter is part of memtrial, so its own errors (an engine that is down) are errors of
            the harness and pass through; those of foreign code never do.
    """

    def __init__(self, *, ours: bool = False) -> None:
        self._ours = ours
        self._hung = False
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        threading.Thread(target=self._work, name="memory", daemon=True).start()

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            call()

    def call(self, run: Callable[[], T], limit_s: float) -> T:
        """Returns what a step returns.

        Args:
            run: the step.
            limit_s: how long it may take, in seconds.

        Raises:
            AdapterFault: it took too long, an earlier one never came back, or it raised.
        """
        if self._hung:
            raise AdapterFault(
                "timed_out", "step-in-time", "an earlier step has not come back, so none can follow"
            )
        values: list[T] = []
        errors: list[MemtrialError] = []
        ended = threading.Event()

        def work() -> None:
            try:
                values.append(run())
            except BaseException as error:  # noqa: BLE001 - the boundary to foreign code, one of the named places
                errors.append(self._fault(error))
            ended.set()

        self._calls.put(work)
        if not ended.wait(limit_s):
            self._hung = True
            raise AdapterFault(
                "timed_out", "step-in-time", f"expected an answer within {limit_s:g} s, found none"
            )
        if errors:
            raise errors[0]
        return values[0]

    def _fault(self, error: BaseException) -> MemtrialError:
        if self._ours and isinstance(error, MemtrialError) and not isinstance(error, AdapterFault):
            return error
        return fault_of(error)

    @property
    def hung(self) -> bool:
        """Whether a step never came back, so that this thread takes no other."""
        return self._hung

    def end(self) -> None:
        """Lets the thread end after its last step."""
        self._calls.put(None)

"""Stops a run at Ctrl-C or SIGTERM: begins no further trial, ends what runs, and says so at once.

A second signal ends the process itself; the next start cleans up after it. Signal handlers only start
threads: the interrupted main thread may hold any lock.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from orchestrator.core.errors import Cancelled
from orchestrator.core.words import counted
from orchestrator.pipeline.run import Run
from orchestrator.pipeline.watch import Watch

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Abortable(Protocol):
    """A sandbox whose containers can all be ended from another thread."""

    def abort(self) -> None:
        """Ends what runs and lets nothing begin."""


class Stopper:
    """Hears the signals from its making on; a run that is made later is stopped as soon as it is known."""

    def __init__(self, sandbox: Abortable, watch: Watch) -> None:
        self._sandbox = sandbox
        self._watch = watch
        self._run: Run | None = None
        self._asked = False

    def of(self, run: Run) -> None:
        """Says which run is to be stopped."""
        self._run = run
        if self._asked:
            run.stop()

    def hear(self, number: int, _frame: object) -> None:
        """Handles a signal."""
        again, self._asked = self._asked, True
        if self._run is not None:
            self._run.stop()
        threading.Thread(target=self._kill if again else self._stop, daemon=True).start()

    def _stop(self) -> None:
        running = self._run.running if self._run else 0
        # Nobody may be left to read this (a closed terminal); what runs is ended all the same.
        with contextlib.suppress(OSError):
            self._watch.say(f"stopping: ending {counted(running, 'trial')} (Ctrl-C again to kill)")
        self._sandbox.abort()

    def _kill(self) -> None:
        name = self._run.folder.name if self._run else "RUN"
        with contextlib.suppress(OSError):
            self._watch.close()
            self._watch.say(
                f"killed: `memtrial resume {name}` goes on; the next start removes what is left in the engine"
            )
        os._exit(Cancelled.exit_code)

    def conclude(self) -> None:
        """Ends the verb of a run that was stopped.

        Raises:
            Cancelled: a signal came; the hint names the run.
        """
        if not self._asked or self._run is None:
            return
        left, name = len(self._run.pending()), self._run.folder.name
        raise Cancelled(
            "run-interrupted",
            f"the run was stopped; {counted(left, 'trial')} of {len(self._run.plan.trials)} "
            f"{'is' if left == 1 else 'are'} left, what was recorded is kept",
            hint=f"run `memtrial {'resume' if left else 'report'} {name}`",
        )


@contextmanager
def stoppable(sandbox: Abortable, watch: Watch) -> Iterator[Stopper]:
    """Hears signals in the block. Elsewhere than in the main thread there are none to hear."""
    stopper = Stopper(sandbox, watch)
    if threading.current_thread() is not threading.main_thread():
        yield stopper
        return
    before = {number: signal.signal(number, stopper.hear) for number in SIGNALS}
    try:
        yield stopper
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    stopper.conclude()

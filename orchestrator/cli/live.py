"""Progress on standard error: a block of live lines on a terminal, plain lines elsewhere.

The block shows one line for each running trial: its stage and the seconds in it. Control sequences move
the cursor only, no colour is used, so NO_COLOR has nothing to forbid. Widths are asked for each frame.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self, TextIO

from orchestrator.cli.command import here
from orchestrator.core.clock import monotonic_ms
from orchestrator.core.printable import printable

FRAME_S = 0.5
# ECMA-48: cursor up n lines, erase from the cursor to the end of the screen.
_UP = "\x1b[{}A"
_ERASE_BELOW = "\x1b[J"


def columns() -> int:
    """Returns the present width of the terminal."""
    return shutil.get_terminal_size().columns


def rows() -> int:
    """Returns the present height of the terminal."""
    return shutil.get_terminal_size().lines


class Progress:
    """Implements `pipeline.watch.Watch`. As a context it also ticks, so that seconds go on."""

    def __init__(
        self,
        out: TextIO | None = None,
        *,
        width: Callable[[], int] = columns,
        height: Callable[[], int] = rows,
        now_ms: Callable[[], int] = monotonic_ms,
    ) -> None:
        self._out = out or sys.stderr
        self._width = width
        self._height = height
        self._now_ms = now_ms
        # A dumb terminal cannot move its cursor.
        self._live = self._out.isatty() and os.environ.get("TERM", "") not in {"", "dumb"}
        self._lock = threading.Lock()
        self._running: dict[str, tuple[str, int]] = {}
        self._shown: list[str] = []
        self._stop = threading.Event()
        self._ticker = threading.Thread(target=self._tick, name="progress", daemon=True)

    def say(self, value: str, /) -> None:
        """Prints a line that stays; live lines move below it."""
        with self._lock:
            self._draw(printable(here(value)) + "\n")

    def stage(self, trial: str, stage: str, /) -> None:
        """Notes that a trial began a stage; shown from the next frame on."""
        with self._lock:
            self._running[trial] = (stage, self._now_ms())

    def ended(self, trial: str, /) -> None:
        """Takes the line of a trial away."""
        with self._lock:
            self._running.pop(trial, None)

    def frame(self) -> None:
        """Draws the live lines once."""
        with self._lock:
            self._draw("")

    def __enter__(self) -> Self:
        if self._live:
            self._ticker.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        if self._ticker.ident is not None:
            self._ticker.join()
        self.close()

    def close(self) -> None:
        """Takes the block away for good: whatever is printed next begins on a line of its own."""
        self._stop.set()
        with self._lock:
            self._running.clear()
            self._draw("")

    def _tick(self) -> None:
        while not self._stop.wait(FRAME_S):
            self.frame()

    def _draw(self, kept: str) -> None:
        """Replaces the block by a line that stays and a new block, in one write: nothing flickers."""
        if not self._live:
            self._write(kept)
            return
        width = max(20, self._width())
        lines = [] if self._stop.is_set() else self._block(width)
        if not kept and lines == self._shown:
            return
        # A terminal that became narrower has wrapped the old lines: they take more rows now.
        rows = sum(max(1, -(-len(line) // width)) for line in self._shown)
        # The row of the cursor is erased as well: the terminal itself writes there (an echoed ^C).
        back = "\r" + (_UP.format(rows) if rows else "") + _ERASE_BELOW
        self._shown = lines
        self._write(back + kept + "".join(line + "\n" for line in lines))

    def _write(self, text: str) -> None:
        if not text:
            return
        # A display that nobody can see any more must not stop the work.
        with contextlib.suppress(OSError):
            self._out.write(text)
            self._out.flush()

    def _block(self, width: int) -> list[str]:
        """No more lines than the terminal has, less one for the cursor: what scrolled away stays for ever."""
        names = sorted(self._running)
        room = max(1, self._height() - 1)
        if len(names) <= room:
            return [self._line(name, width) for name in names]
        shown = names[: room - 1]
        return [
            *(self._line(name, width) for name in shown),
            f"  and {len(names) - len(shown)} more"[: width - 1],
        ]

    def _line(self, trial: str, width: int) -> str:
        stage, since_ms = self._running[trial]
        tail = f" {stage} {(self._now_ms() - since_ms) // 1000} s"
        return f"  {trial}"[: width - 1 - len(tail)] + tail

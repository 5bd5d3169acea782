"""The terminal as the desk of a curator: shows an episode, runs the person's editor, asks what comes next.

The one place of this room that starts a process: what $VISUAL or $EDITOR names, with the file as its last
argument. At the deadline the editor is ended and the terminal put back in order.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from orchestrator.cli import render
from orchestrator.core.errors import EnvironmentMissing
from orchestrator.core.waiting import readable
from orchestrator.model.task import Episode
from orchestrator.pipeline.curation import Choice, Tick

TICK_S = 1.0
GRACE_S = 2.0
EDITORS = ("nano", "vim", "vi", "ed")
_WORDS: dict[str, Choice] = {"": "edit", "e": "edit", "c": "close", "s": "stop"}


def editor_command() -> list[str]:
    """Returns the person's editor: $VISUAL, else $EDITOR, else the first known one on PATH.

    Raises:
        EnvironmentMissing: none of them can be started.
    """
    named = os.environ.get("VISUAL") or os.environ.get("EDITOR") or ""
    try:
        words = shlex.split(named)
    except ValueError:
        words = []
    if not named:
        words = [name for name in EDITORS if shutil.which(name)][:1]
    if not words or shutil.which(words[0]) is None:
        raise EnvironmentMissing(
            "editor-missing",
            f"expected an editor in VISUAL or EDITOR, found {named or 'none set, and none of ' + ', '.join(EDITORS)!r}",
            hint="set one: EDITOR=nano memtrial curate ...",
        )
    return words


class Terminal:
    """Implements `pipeline.curation.Desk` on standard input and output."""

    def __init__(self, say: Callable[[str], None] = render.text) -> None:
        """Checks that a person can sit here.

        Raises:
            EnvironmentMissing: standard input is no terminal, or there is no editor.
        """
        if not sys.stdin.isatty():
            raise EnvironmentMissing(
                "no-terminal",
                "expected a terminal as standard input, found none: minutes count only for a person",
                hint="run `memtrial curate` in a terminal; `--status` needs none",
            )
        self._editor = editor_command()
        self._say = say
        self._typed = b""

    def say(self, text: str) -> None:
        """Prints a line."""
        self._say(text)

    def show(self, episode: Episode, place: str) -> None:
        """Prints the episode, speaker by speaker."""
        lines = [f"--- {place}, {episode.started_at} ---"]
        for event in episode.events:
            who: str = event.role
            if event.tool is not None:
                code = "" if event.tool.exit_code is None else f" (exit {event.tool.exit_code})"
                who = f"tool {event.tool.name}{code}: {event.tool.input}\n"
            lines.append(
                f"[{event.at[11:16]}] {who}: {event.text}"
                if event.tool is None
                else f"[{event.at[11:16]}] {who}{event.text}"
            )
        self._say("\n".join([*lines, "---"]))

    def edit(self, file: Path, left_ms: int, tick: Tick) -> None:
        """Runs the editor until it ends or the time is up."""
        ends_s = time.monotonic() + left_ms / 1000
        with _terminal_restored(), _interrupts_are_the_editors():
            editor = subprocess.Popen([*self._editor, str(file)])
            try:
                while editor.poll() is None and time.monotonic() < ends_s:
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        editor.wait(min(TICK_S, max(0.01, ends_s - time.monotonic())))
                    tick()
            finally:
                _end(editor)
        if time.monotonic() >= ends_s:
            self._say(
                "the time for this episode is up: the editor was ended, what was saved counts"
            )

    def choose(self, left_ms: int, tick: Tick) -> Choice:
        """Asks until a known word, the deadline, or the end of the input."""
        ends_s = time.monotonic() + left_ms / 1000
        while True:
            left_s = ends_s - time.monotonic()
            self._say(
                f"{int(max(0, left_s)) // 60}:{int(max(0, left_s)) % 60:02d} left. Enter edits, c closes the episode, s stops for now."
            )
            line = self._line(ends_s, tick)
            if line is None:
                return "time" if time.monotonic() >= ends_s else "stop"
            if line.strip().lower() in _WORDS:
                return _WORDS[line.strip().lower()]

    def conflicts(self, most: int) -> int:
        """Asks for a number between 0 and `most`; the clock stands still."""
        while True:
            self._say(
                f"How many of these {most} changes resolved a conflict between the file and the episode? (Enter for 0)"
            )
            line = self._line(None, lambda: None)
            if line is None:
                raise KeyboardInterrupt
            word = line.strip() or "0"
            if word.isascii() and word.isdigit() and len(word) < 7 and int(word) <= most:
                return int(word)

    def clear(self) -> None:
        """Empties the screen."""
        render.clear_screen()

    def _line(self, ends_s: float | None, tick: Tick) -> str | None:
        """Returns a typed line; None at the deadline or at the end of the input."""
        while b"\n" not in self._typed:
            left_s = TICK_S if ends_s is None else min(TICK_S, ends_s - time.monotonic())
            if left_s <= 0:
                return None
            ready = readable(sys.stdin, left_s)
            tick()
            if ready:
                data = os.read(sys.stdin.fileno(), 4096)
                if not data:
                    return None
                self._typed += data
        line, _, self._typed = self._typed.partition(b"\n")
        return line.decode("utf-8", "replace")


@contextlib.contextmanager
def _terminal_restored() -> Iterator[None]:
    """Puts the terminal's modes back as they were, whatever an editor that was ended left behind."""
    modes = termios.tcgetattr(sys.stdin.fileno())
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin.fileno(), termios.TCSANOW, modes)


@contextlib.contextmanager
def _interrupts_are_the_editors() -> Iterator[None]:
    """Leaves Ctrl-C to the editor; a handler, not SIG_IGN, because a child would inherit that."""
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _end(editor: subprocess.Popen[bytes]) -> None:
    if editor.poll() is not None:
        return
    editor.terminate()
    try:
        editor.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        editor.kill()
        editor.wait()

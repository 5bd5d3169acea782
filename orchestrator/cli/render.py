"""The only module that prints: results on standard output, progress and errors on standard error."""

from __future__ import annotations

import json
import sys
import threading

from orchestrator.core.errors import MemtrialError


def text(value: str) -> None:
    """Prints a result."""
    print(value, flush=True)


def note(value: str) -> None:
    """Prints a remark to standard error."""
    print(value, file=sys.stderr, flush=True)


def document(value: object) -> None:
    """Prints one JSON document."""
    print(json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False), flush=True)


def failure(error: MemtrialError, *, as_json: bool) -> None:
    """Prints an error: what happened, what was expected and found, what to do next."""
    if as_json:
        document(
            {
                "error": {
                    "reference": error.reference,
                    "message": error.message,
                    "hint": error.hint,
                    "exit_code": error.exit_code,
                }
            }
        )
    note(
        f"memtrial: {error.message}\n  next: {error.hint}\n  ({error.reference}, exit {error.exit_code})"
    )


class Progress:
    """Progress lines on standard error: one live line on a terminal, plain lines elsewhere."""

    def __init__(self) -> None:
        self._live = sys.stderr.isatty()
        self._lock = threading.Lock()
        self._width = 0

    def say(self, value: str) -> None:
        """Prints a line that stays."""
        with self._lock:
            self._wipe()
            print(value, file=sys.stderr, flush=True)

    def live(self, value: str) -> None:
        """Shows a line that the next one replaces; nothing where there is no terminal."""
        if not self._live:
            return
        with self._lock:
            self._wipe()
            print(value[:100], end="", file=sys.stderr, flush=True)
            self._width = min(len(value), 100)

    def _wipe(self) -> None:
        if self._width:
            print("\r" + " " * self._width + "\r", end="", file=sys.stderr)
            self._width = 0

"""Prints results on standard output, remarks and errors on standard error; cli/live.py shows progress."""

from __future__ import annotations

import json
import sys

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

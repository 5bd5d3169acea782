"""Prints results on standard output, remarks and errors on standard error; cli/live.py shows progress.

Everything passes here on its way to a terminal, and leaves as text that can do nothing but be read:
names and messages may come from a candidate, an archive or an engine.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import textwrap

from orchestrator.cli.command import here
from orchestrator.core.errors import ApprovalRefused, EnvironmentMissing, MemtrialError
from orchestrator.core.printable import printable


def text(value: str) -> None:
    """Prints a result.

    Raises:
        EnvironmentMissing: standard output takes no more (a full disk).
        BrokenPipeError: its reader is gone.
    """
    try:
        print(printable(here(value), limit=None, lines=True), flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        give_up_output()
        raise EnvironmentMissing(
            "output-not-written",
            f"expected to write to standard output, found: {error.strerror or error}",
            hint="make room where the output goes, then run the same command again",
        ) from error


def row(value: str) -> None:
    """Prints a long line; on a terminal that is too narrow it goes on below, indented."""
    width = columns()
    text(value if width is None else wrapped(value, width))


def wrapped(value: str, width: int) -> str:
    """Returns the lines of a text, broken between words where they are too wide for a terminal."""
    lines = []
    for line in value.split("\n"):
        if len(line) <= width:
            lines.append(line)
            continue
        indent = " " * (len(line) - len(line.lstrip()) + 4)
        lines += textwrap.wrap(
            line,
            max(width, 2 * len(indent)),
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
        )
    return "\n".join(lines)


def columns() -> int | None:
    """Returns the width to keep to: of COLUMNS or the terminal; None where the output goes elsewhere."""
    if os.environ.get("COLUMNS", "").isdigit() or sys.stdout.isatty():
        return max(20, shutil.get_terminal_size().columns)
    return None


def give_up_output() -> None:
    """Sends what standard output still holds nowhere: the interpreter's own flush at the end stays quiet."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        # A standard output without a descriptor has nothing to flush.
        return


def note(value: str) -> None:
    """Prints a remark to standard error; one that takes no more changes nothing."""
    with contextlib.suppress(OSError):
        print(printable(here(value), limit=None, lines=True), file=sys.stderr, flush=True)


def clear_screen() -> None:
    """Empties a terminal and what can be scrolled back to (ECMA-48 ED, and the 3J of xterm)."""
    if sys.stdout.isatty():
        print("\x1b[H\x1b[2J\x1b[3J", end="", flush=True)


def document(value: object) -> None:
    """Prints one JSON document, in ASCII: exact, and no character of it reaches a terminal as a control."""
    text(json.dumps(value, indent=2, sort_keys=True, ensure_ascii=True))


def failure(error: MemtrialError, *, as_json: bool) -> None:
    """Prints an error: what happened, what was expected and found, what to do next."""
    check = error.check if isinstance(error, ApprovalRefused) else None
    numbered = {} if check is None else {"check": check}
    if as_json:
        document(
            {
                "error": {
                    "reference": error.reference,
                    "message": error.message,
                    "hint": here(error.hint),
                    "exit_code": error.exit_code,
                    **numbered,
                }
            }
        )
    told = "" if check is None else f"check {check}, "
    note(
        f"memtrial: {printable(error.message)}\n  next: {printable(error.hint)}\n  ({error.reference}, {told}exit {error.exit_code})"
    )

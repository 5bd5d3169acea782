"""How this memtrial is called from where the user is: hints and `next:` lines name commands that work.

Reads PATH and the interpreter's place; writes nothing.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from pathlib import Path

# The word in front of a verb, where it is a command: in backquotes or after "next:".
_COMMAND = re.compile(r"(?<=`)memtrial(?= [a-z-])|(?<=^next: )memtrial(?= )", re.MULTILINE)


def shown_path(path: Path) -> str:
    """Returns a path relative to the working folder where that is shorter; from / nothing is."""
    relative = os.path.relpath(path)
    shorter = len(relative) < len(str(path)) and Path.cwd() != Path("/")
    return relative if shorter else str(path)


def own_command() -> str:
    """Returns `memtrial` if that is this installation on PATH, else what to type instead."""
    own = Path(sys.executable).with_name("memtrial")
    found = shutil.which("memtrial")
    if found is not None and (not own.exists() or Path(found).resolve() == own.resolve()):
        return "memtrial"
    if own.exists():
        shown = shown_path(own)
        # A bare name would be looked for on PATH.
        return shlex.quote(shown if "/" in shown else f"./{shown}")
    return f"{shlex.quote(shown_path(Path(sys.executable)))} -m orchestrator"


def here(text: str) -> str:
    """Returns a text whose commands work where the user is."""
    return _COMMAND.sub(lambda _: own_command(), text) if "memtrial" in text else text

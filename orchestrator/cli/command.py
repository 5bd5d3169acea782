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
    """Returns a path relative to the working folder where that is shorter."""
    relative = os.path.relpath(path)
    return relative if len(relative) < len(str(path)) else str(path)


def own_command() -> str:
    """Returns `memtrial` if that is this installation on PATH, else what to type instead."""
    own = Path(sys.executable).with_name("memtrial")
    found = shutil.which("memtrial")
    if found is not None and (not own.exists() or Path(found).resolve() == own.resolve()):
        return "memtrial"
    if own.exists():
        return shlex.quote(shown_path(own))
    return f"{shlex.quote(shown_path(Path(sys.executable)))} -m orchestrator"


def here(text: str) -> str:
    """Returns a text whose commands work where the user is."""
    return _COMMAND.sub(lambda _: own_command(), text) if "memtrial" in text else text

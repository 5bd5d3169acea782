"""Finds the files of a checkout that steer agents: instructions, settings, hooks, skills, tool servers. Pure.

They are the same in every arm, being part of the pinned tree, and kept from the model by every driver's
profile; that none of their lines arrives is proven from the gateway's record.
"""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

from orchestrator.core.gittree import FileEntry

NAMES = (
    *("CLAUDE.md", "CLAUDE.local.md", "AGENTS.md", "AGENTS.override.md", "GEMINI.md"),
    *(".mcp.json", ".cursorrules", "copilot-instructions.md"),
)
FOLDERS = (".claude", ".codex", ".agents", ".cursor")
MIN_LINE_CHARS = 24
MAX_LINES = 200


def steering_files(entries: Iterable[FileEntry]) -> tuple[FileEntry, ...]:
    """Returns the steering files among the files of a checkout, by path."""
    return tuple(sorted((e for e in entries if steers(e.path)), key=lambda entry: entry.path))


def steers(path: str) -> bool:
    """Tells whether an agent takes a file of this path for instructions."""
    *folders, name = path.split("/")
    return any(fnmatchcase(name, known) for known in NAMES) or bool(set(FOLDERS) & set(folders))


def telling_lines(data: bytes) -> tuple[str, ...]:
    """Returns the lines of a file that are long enough to be known again in a request."""
    lines = (line.strip() for line in data.decode("utf-8", "replace").splitlines())
    return tuple(dict.fromkeys(x for x in lines if len(x) >= MIN_LINE_CHARS))[:MAX_LINES]

"""The arm with a curated MEMORY.md: its list entries and paragraphs, in file order.

The file was checked against its curator log before any run (sources.loader); here it is only cut up.
"""

from __future__ import annotations

import re

from orchestrator.core.errors import DocumentError
from orchestrator.memory.builtin import BuiltinMemory
from orchestrator.memory.sessions import PROJECT
from orchestrator.memory.supplies import Supplies
from orchestrator.memory.tokens import TokenCounter
from orchestrator.model.lifecycle import StoredMemory
from orchestrator.protocols import MemoryPlace

_LIST_ENTRY = re.compile(r"(?:[-*+]|\d{1,9}[.)])\s+")


class CuratedAdapter(BuiltinMemory):
    """Serves the curated file of a task; raw events teach it nothing.

    Args:
        text: the file.
        counter: counts tokens.
    """

    name = "curated"
    information = "curated"

    def __init__(self, text: str, counter: TokenCounter) -> None:
        super().__init__(counter)
        self._entries = split_entries(text)

    def open(self, place: MemoryPlace) -> None:
        """Writes the entries down in order."""
        self._memories = [
            StoredMemory(
                memory_id=f"c{number:03d}",
                kind="entry",
                text=entry,
                scope=PROJECT,
                status="active",
            )
            for number, entry in enumerate(self._entries, 1)
        ]


def split_entries(text: str) -> list[str]:
    """Cuts Markdown into top-level list entries and paragraphs; headings are prefixed to what follows."""
    entries: list[str] = []
    heading = fence = ""
    current: list[str] = []

    def close() -> None:
        body = "\n".join(current).strip()
        current.clear()
        if body:
            entries.append(f"{heading}: {body}" if heading else body)

    for line in text.splitlines():
        mark = line.strip()[:3]
        if fence or mark in {"```", "~~~"}:
            # A fenced block belongs to the entry before it: its `#` and `-` are no Markdown.
            current.append(line.rstrip())
            fence = "" if mark == fence else fence or mark
        elif line.startswith("#"):
            close()
            heading = line.lstrip("#").strip()
        elif _LIST_ENTRY.match(line):
            close()
            current.append(_LIST_ENTRY.sub("", line, count=1))
        elif not line.strip():
            close()
        else:
            current.append(line.strip())
    close()
    return entries


def make(name: str, supplies: Supplies) -> CuratedAdapter:
    """Makes the arm that serves the task's curated file."""
    return CuratedAdapter(file_of(supplies), supplies.counter)


def file_of(supplies: Supplies) -> str:
    """Returns the curated file that is served.

    Raises:
        DocumentError: the task has none.
    """
    if supplies.curated is None:
        raise DocumentError(
            "curated-file-missing",
            "expected a curated file of the task, found none",
            hint="add fixtures/curated/TASK/MEMORY.md with its log",
        )
    return supplies.curated

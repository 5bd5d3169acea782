"""The arm with a curated MEMORY.md: its list entries and paragraphs, in file order.

The file was checked against its curator log before any run (sources.loader); here it is only cut up.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from orchestrator.core.canonical import sha256_hex
from orchestrator.core.errors import DocumentError
from orchestrator.model.condition import Condition
from orchestrator.model.memory import MemoryItem, Remembered
from orchestrator.model.task import History

_LIST_ENTRY = re.compile(r"(?:[-*+]|\d{1,9}[.)])\s+")


class CuratedAdapter:
    """Serves the curated file of a task."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self._files = dict(files)

    def remember(self, condition: Condition, history: History, query: str) -> Remembered:
        """Returns the file's entries in order.

        Raises:
            DocumentError: the task has no curated file.
        """
        text = self._files.get(history.task_id)
        if text is None:
            raise DocumentError(
                "curated-file-missing",
                f"task {history.task_id}: expected a curated file, found none",
                hint=f"add fixtures/curated/{history.task_id}/MEMORY.md with its log",
            )
        items = tuple(
            MemoryItem(item_id=f"c{number:03d}", text=entry)
            for number, entry in enumerate(split_entries(text), 1)
        )
        return Remembered(
            condition_id=condition.id,
            adapter="curated",
            captured_events=0,
            store_sha256=sha256_hex(text.encode()),
            items=items,
        )


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

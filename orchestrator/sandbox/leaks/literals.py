"""Chooses what the scan looks for: strings that cannot occur by chance, from key, patch, canaries, paths.

Pure. Strong literals are long or random: seen anywhere, they mean a leak. Weak ones are single lines that
a distribution or a repository may hold too; where they stand in an image they count as common.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from orchestrator.core.errors import DocumentError
from orchestrator.core.gittree import FileEntry
from orchestrator.core.patchtext import added_lines
from orchestrator.model.task import Brief, History, Key, Rehearsal
from orchestrator.sandbox.leaks.forms import MAX_LITERAL_BYTES, squeeze
from orchestrator.sandbox.leaks.scanner import Kind, Literal, Scanner

WEAK_BYTES = 20
STRONG_LINE_BYTES = 48
STRONG_FACT_BYTES = 40
WINDOW_LINES = 3
STRONG_WINDOW_BYTES = 64
MAX_OF_A_KIND = 60
WEAK_PATH_BYTES, STRONG_PATH_BYTES = 12, 20
# A canary is this and 32 hexadecimal digits; one of these that is not the trial's own is foreign.
CANARY_PREFIX = b"memtrial-mark-"
# The container's own folders: a host path below them says nothing.
CONTAINER_FOLDERS = ("/work", "/home/agent", "/opt/memtrial", "/report", "/run/harvest")
_BORROWED = re.compile(
    rb"^(import|from|use|using|package|require|include|#include|export \*)\b|^[^\w]*$"
)


def oracle_literals(key: Key, rehearsal: Rehearsal) -> tuple[Literal, ...]:
    """Returns the literals of a task's answer: hidden tests, gold facts, added lines of the reference."""
    hidden = [line for file in key.hidden_files for line in file.text.encode().split(b"\n")]
    values = [
        Literal("hidden", _cut(value.encode()), strong=False)
        for test in key.card.fail_to_pass
        for value in test.values
        if len(squeeze(value.encode())) >= WEAK_BYTES
    ]
    facts = [
        Literal(
            "fact",
            _cut(fact.statement.encode()),
            len(squeeze(fact.statement.encode())) >= STRONG_FACT_BYTES,
        )
        for fact in key.card.gold_facts
        if len(squeeze(fact.statement.encode())) >= WEAK_BYTES
    ]
    wordings = [
        Literal("fact", _cut(part.encode()), strong=False)
        for fact in rehearsal.facts
        for parts in fact.any_of
        for part in parts
        if len(squeeze(part.encode())) >= WEAK_BYTES
    ]
    return tuple(
        dict.fromkeys(
            (
                *_of_lines("hidden", hidden),
                *values,
                *_of_lines("reference", added_lines(rehearsal.reference_patch.encode())),
                *facts,
                *wordings,
            )
        )
    )


def _of_lines(kind: Kind, lines: list[bytes]) -> list[Literal]:
    """Returns strong windows of a few lines, then single lines; never lines that anybody writes."""
    kept = [line for line in lines if line.strip()]
    found = [Literal(kind, _cut(window), strong=True) for window in _windows(kept)]
    for line in kept:
        length = len(squeeze(line))
        if length >= WEAK_BYTES and not _BORROWED.match(line.strip()):
            found.append(Literal(kind, _cut(line.strip()), strong=length >= STRONG_LINE_BYTES))
    return found[:MAX_OF_A_KIND]


def _windows(lines: list[bytes]) -> Iterator[bytes]:
    for start in range(0, len(lines) - WINDOW_LINES + 1, WINDOW_LINES):
        window = lines[start : start + WINDOW_LINES]
        borrowed = any(_BORROWED.match(line.strip()) for line in window)
        text = b"\n".join(window)
        if not borrowed and len(squeeze(text)) >= STRONG_WINDOW_BYTES:
            yield text.strip()


def _cut(data: bytes) -> bytes:
    return data[:MAX_LITERAL_BYTES]


def canary_literal() -> Literal:
    """Returns what all canaries begin with."""
    return Literal("canary", CANARY_PREFIX, strong=True)


def canary(secret: str, owner: str) -> bytes:
    """Returns the canary of an owner (a trial, or the host) within a run."""
    digest = hashlib.sha256(f"{secret}\0{owner}".encode()).hexdigest()[:32]
    return CANARY_PREFIX + digest.encode()


def host_path_literals(paths: Iterable[Path]) -> tuple[Literal, ...]:
    """Returns the host's paths that are long enough to be telling and are not the container's own."""
    found: dict[str, Literal] = {}
    for path in paths:
        text = str(path)
        inside = any(text == top or text.startswith(f"{top}/") for top in CONTAINER_FOLDERS)
        if not inside and len(text) >= WEAK_PATH_BYTES and text.count("/") >= 2:
            strong = len(text) >= STRONG_PATH_BYTES and text.count("/") >= 3
            found[text] = Literal("host_path", text.encode(), strong)
    return tuple(found.values())


def check_task(
    checkout: Iterable[FileEntry],
    *,
    key: Key,
    rehearsal: Rehearsal,
    brief: Brief,
    history: History,
) -> None:
    """Refuses a task whose own files would trip the scan.

    Raises:
        DocumentError: a hidden test's text stands in the checkout, the prompt or the history, or a fact's
            statement in the checkout or the prompt; the file is named.
    """
    task_id = key.task_id
    strong = [literal for literal in oracle_literals(key, rehearsal) if literal.strong]
    hidden = [literal for literal in strong if literal.kind == "hidden"]
    facts = [literal for literal in strong if literal.kind == "fact"]
    if not hidden:
        raise DocumentError(
            "task-not-scannable",
            f"task {task_id}: expected hidden tests with text that cannot occur by chance, found none",
            hint=f"give fixtures/tasks/{task_id}/key/hidden longer tests",
        )
    scanner = Scanner([*hidden, *facts, canary_literal()])
    for entry in checkout:
        _refuse(scanner, task_id, f"checkout file {entry.path}", entry.data)
    _refuse(scanner, task_id, "brief.json (prompt)", brief.prompt.encode())
    # What a history is there to tell are the facts.
    _refuse(scanner, task_id, "history.json", _text_of(history), allowed="fact")


def _text_of(history: History) -> bytes:
    parts = [
        f"{event.text}\n{event.tool.input if event.tool else ''}"
        for episode in history.episodes
        for event in episode.events
    ]
    return "\n".join(parts).encode()


def _refuse(
    scanner: Scanner, task_id: str, place: str, data: bytes, *, allowed: Kind | None = None
) -> None:
    for hit in scanner.scan(data, place).hits:
        if hit.literal.kind == allowed:
            continue
        names = {"hidden": "hidden test", "fact": "gold fact", "canary": "canary"}
        shown = hit.literal.data.split(b"\n")[0].decode("utf-8", "replace")
        raise DocumentError(
            "task-trips-scan",
            f"task {task_id}: expected no text of a {names.get(hit.literal.kind, hit.literal.kind)} in {place}, "
            f"found {shown!r} ({hit.encoding}) at byte {hit.offset}",
            hint=f"reword it in fixtures/tasks/{task_id}, or leave the file out of the source",
        )

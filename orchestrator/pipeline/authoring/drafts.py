"""A task in the making: what goes into a pack's folders, written whole or not at all.

Importers and scaffolds make drafts of plain values; the loader judges what was written. Writes only below
the folder that it is given.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestrator.core.clock import utc_now_text
from orchestrator.core.errors import DocumentError
from orchestrator.core.files import safe_relative, write_atomic

MIB = 1024 * 1024
LIMITS = {
    "wall_s": 600,
    "cpus_milli": 1000,
    "memory_bytes": 1024 * MIB,
    "pids": 256,
    "work_bytes": 128 * MIB,
    "work_inodes": 20_000,
    "output_bytes": 4 * MIB,
    "diff_bytes": MIB,
}
FORBIDDEN = (
    "tests/**",
    "**/conftest.py",
    "pyproject.toml",
    "setup.cfg",
    "setup.py",
    "tox.ini",
    "**/pytest.ini",
    ".git/**",
    "**/*.pth",
    "**/sitecustomize.py",
)
RUNNER_OF = {
    "python": {
        "kind": "pytest",
        "source_roots": ["src"],
        "test_paths": ["tests"],
        "timeout_s": 300,
    },
    "javascript": {
        "kind": "node-test",
        "source_roots": ["src"],
        "test_paths": ["tests/**/*.test.js"],
        "timeout_s": 300,
    },
    "typescript": {
        "kind": "node-test",
        "source_roots": ["src"],
        "test_paths": ["tests/**/*.test.ts"],
        "timeout_s": 300,
    },
    "go": {"kind": "go-test", "source_roots": ["."], "test_paths": ["./..."], "timeout_s": 300},
    "rust": {"kind": "cargo", "source_roots": ["src"], "test_paths": ["tests"], "timeout_s": 300},
}


@dataclass(slots=True)
class Draft:
    """The documents of a task as plain values, and the texts beside them."""

    task_id: str
    documents: dict[str, dict[str, Any]] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)

    def files(self) -> dict[str, bytes]:
        """Returns the task's files by path below its folder.

        Raises:
            DocumentError: a path leaves the folder.
        """
        found = {name: as_document(value) for name, value in self.documents.items()}
        found |= {name: text.encode() for name, text in self.texts.items()}
        for name in found:
            safe_relative(name, where=f"task {self.task_id}")
        return found


def as_document(value: Mapping[str, Any]) -> bytes:
    """Returns the bytes of a document as people read and edit it."""
    return (
        json.dumps({"schema_version": 1, **value}, indent=2, ensure_ascii=False) + "\n"
    ).encode()


def slug(text: str) -> str:
    """Returns an id made of a foreign one."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().casefold()
    return re.sub(r"[^a-z0-9._-]+", "-", plain).strip("-._")[:80] or "task"


def new_folder(folder: Path) -> Path:
    """Returns a folder that does not exist or is empty.

    Raises:
        DocumentError: it holds something.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DocumentError(
            "out-not-empty",
            f"{folder}: expected a new or empty folder, found files",
            hint="choose another --out",
        )
    return folder


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Writes files below a folder; the caller has checked their paths."""
    for name, data in sorted(files.items()):
        write_atomic(folder / name, data)


def card(
    task_id: str,
    title: str,
    *,
    category: str,
    source: str,
    language: str,
    runner: Mapping[str, Any],
) -> dict[str, Any]:
    """Returns a task card of today's making, unmeasured."""
    return {
        "id": task_id,
        "title": title[:120] or task_id,
        "category": category,
        "suite": "coding-v1",
        "smoke": False,
        "created_on": utc_now_text()[:10],
        "calibration": "unmeasured",
        "source": source,
        "language": language,
        "runner": dict(runner),
    }


def brief(
    task_id: str, prompt: str, allowed: tuple[str, ...], forbidden: tuple[str, ...]
) -> dict[str, Any]:
    """Returns a brief with the usual limits."""
    return {
        "task_id": task_id,
        "prompt": prompt,
        "allowed_paths": list(allowed),
        "forbidden_paths": list(forbidden),
        "limits": LIMITS,
    }


def without_history(
    task_id: str,
    *,
    hidden: Iterable[str],
    wanted: Iterable[str],
    base: Iterable[str],
    relevant: Iterable[str],
) -> dict[str, dict[str, Any]]:
    """Returns key, history and rehearsal of an imported task that has neither history nor facts."""
    event = {
        "event_id": "ep01-e01",
        "at": "2000-01-01T00:00:00Z",
        "role": "user",
        "text": "Imported without a history.",
        "tool": None,
    }
    fact = {
        "id": "f1",
        "kind": "selective",
        "statement": "To be written.",
        "supporting_event_ids": ["ep01-e01"],
        "matchers": ["to be written"],
    }
    episode = {"episode_id": "ep01", "started_at": event["at"], "events": [event]}
    return {
        "history.json": {"task_id": task_id, "episodes": [episode]},
        "key.json": {
            "task_id": task_id,
            "hidden_files": [{"path": path} for path in sorted(hidden)],
            "boundary": "in_process",
            "fail_to_pass": [{"id": n, "group": "capability"} for n in sorted(set(wanted))],
            "gold_facts": [fact],
            "relevant_files": list(relevant),
        },
        "key/pass_to_pass.json": {
            "task_id": task_id,
            "pass_to_pass": [{"id": name} for name in sorted(set(base))],
        },
        "rehearsal/rehearsal.json": {
            "task_id": task_id,
            "facts": [{"id": "f1", "any_of": [["to be written"]]}],
        },
    }

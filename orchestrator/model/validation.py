"""What validating tasks found: named checks with evidence, and a difficulty card for each task."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from orchestrator.core.canonical import digest_sha256
from orchestrator.model.base import Closed, Document, Sha256, Slug, Text
from orchestrator.model.task import TaskDigests

CheckName = Literal[
    "v1-pins",
    "v2-base-suite",
    "v3-live-source",
    "v4-no-op",
    "v5-reference",
    "v6-guesses",
    "v7-hidden-tests",
    "v8-overlap",
    "v9-leaks",
    "v10-history",
    "v11-time",
    "v12-redaction",
]


class Check(Closed):
    """One check: whether it holds, and what was seen. When it fails the evidence says what to change."""

    name: CheckName
    ok: bool
    evidence: Text


class Difficulty(Closed):
    """How far the decisive events are from the prompt. A rank of null means not found at all."""

    events: int = Field(gt=0)
    decisive_event_ids: tuple[Slug, ...] = Field(min_length=1)
    fts5_rank: int | None
    hash_rank: int | None
    shared_words: tuple[str, ...]


class TaskValidation(Closed):
    """All checks of one task, bound to its exact files."""

    id: Slug
    task_sha256: Sha256
    ok: bool
    checks: tuple[Check, ...] = Field(min_length=1)
    difficulty: Difficulty


class ValidationReport(Document):
    """`fixtures/validation.json`, and what `memtrial tasks validate --json` prints."""

    repeats: int = Field(gt=0)
    tasks: tuple[TaskValidation, ...]


def task_sha256(digests: TaskDigests) -> str:
    """Returns the digest that binds a validation to a task's exact files."""
    return digest_sha256(digests.model_dump(mode="json"))

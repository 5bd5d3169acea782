"""The curated files of a plan: pinned when it is made, read again when it is run."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from orchestrator.core.errors import DocumentError, IntegrityError
from orchestrator.model.condition import Condition
from orchestrator.model.curation import maintenance_s
from orchestrator.model.plan import CuratedPin, Plan
from orchestrator.sources.loader import LoadedTask, load_curated

SERVES_FILE = frozenset({"curated", "conventions"})
"""Adapters that serve the task's curated file."""


def curated_pins(
    fixtures: Path, tasks: tuple[LoadedTask, ...], conditions: Iterable[Condition]
) -> tuple[CuratedPin, ...]:
    """Pins the curated file of every task, where an arm serves one; names all tasks that have none at once.

    Raises:
        DocumentError: a task has none.
    """
    if not any(condition.adapter in SERVES_FILE for condition in conditions):
        return ()
    names = [task.card.id for task in tasks]
    without = [name for name in names if not (fixtures / "curated" / name / "MEMORY.md").is_file()]
    if without:
        raise DocumentError(
            "curated-file-missing",
            f"expected a curated file for each of {len(names)} tasks, found none for {', '.join(without)}",
            hint=f"add curated/{without[0]}/MEMORY.md with its log, or choose other arms with --condition or other tasks with --task",
        )
    return tuple(_curated_pin(fixtures, task) for task in tasks)


def curated_texts(plan: Plan, fixtures: Path) -> dict[str, str]:
    """Returns the curated files that a plan pins, by task.

    Raises:
        IntegrityError: one has other bytes now.
    """
    files = {}
    for curated in plan.curated:
        found = load_curated(fixtures, curated.task_id)
        if (found.file_sha256, found.log_sha256) != (curated.file_sha256, curated.log_sha256):
            raise IntegrityError(
                "curated-file-changed",
                f"curated file of {curated.task_id}: expected the bytes of the plan, found others",
                hint="restore the file, or make a new plan",
            )
        files[curated.task_id] = found.text
    return files


def _curated_pin(fixtures: Path, task: LoadedTask) -> CuratedPin:
    curated = load_curated(fixtures, task.card.id)
    return CuratedPin(
        task_id=task.card.id,
        file_sha256=curated.file_sha256,
        log_sha256=curated.log_sha256,
        curator_kind=curated.log.curator_kind,
        maintenance_s=maintenance_s(curated.log),
    )

"""Takes over a curator log of remem's coding benchmark (its schema v1) for a timeline that this project has.

The log is checked against itself, its file and the timeline; what nobody measured stays unsaid: minutes are
`by report`, digests of steps are null. Writes MEMORY.md and curator-log.json into one folder.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from orchestrator.core.canonical import sha256_hex
from orchestrator.core.errors import DocumentError, IntegrityError
from orchestrator.core.files import write_atomic
from orchestrator.model.base import Closed, Document, Sha256, Slug
from orchestrator.model.curation import PROTOCOL, CurationBudget, HumanCuratorLog, HumanStep
from orchestrator.model.task import History
from orchestrator.pipeline.curation import FILE, LOG

# Minutes are decimal fractions added up: sums are compared with this tolerance.
TOLERANCE_MINUTES = 1e-6


class RememBudget(Closed):
    """The budget, in remem's names."""

    minutes_per_session: float = Field(gt=0)
    max_chars: int = Field(gt=0)


class RememSession(Closed):
    """One session of the curator."""

    episode_id: Slug
    minutes_spent: float = Field(ge=0)
    edit_count: int = Field(ge=0)
    deletion_count: int = Field(ge=0)
    conflict_resolution_count: int = Field(ge=0)
    chars_after: int = Field(ge=0)


class RememTotals(Closed):
    """Sums over the sessions."""

    maintenance_minutes: float = Field(ge=0)
    update_count: int = Field(ge=0)
    deletion_count: int = Field(ge=0)
    conflict_resolution_count: int = Field(ge=0)


class RememCuratorLog(Document):
    """The log as remem's schema has it; beyond that schema, it must agree with itself."""

    condition: Literal["curated_file_budgeted"]
    task_id: Slug
    target_blind: Literal[True]
    budget: RememBudget
    sessions: tuple[RememSession, ...] = Field(min_length=1)
    totals: RememTotals
    final_char_count: int = Field(ge=0)
    final_file_sha256: Sha256

    @model_validator(mode="after")
    def _adds_up(self) -> Self:
        sums = (
            ("update_count", self.totals.update_count, sum(s.edit_count for s in self.sessions)),
            (
                "deletion_count",
                self.totals.deletion_count,
                sum(s.deletion_count for s in self.sessions),
            ),
            (
                "conflict_resolution_count",
                self.totals.conflict_resolution_count,
                sum(s.conflict_resolution_count for s in self.sessions),
            ),
            ("final_char_count", self.final_char_count, self.sessions[-1].chars_after),
        )
        for name, said, found in sums:
            if said != found:
                raise ValueError(f"{name} is {said}, but the sessions give {found}")
        minutes = sum(s.minutes_spent for s in self.sessions)
        if abs(self.totals.maintenance_minutes - minutes) > TOLERANCE_MINUTES:
            raise ValueError(
                f"maintenance_minutes is {self.totals.maintenance_minutes}, but the sessions give {minutes}"
            )
        return self


def convert(log: RememCuratorLog, history: History, file: bytes, folder: Path) -> HumanCuratorLog:
    """Writes the log and its file as this project keeps them.

    Args:
        log: of remem.
        history: the timeline that was curated.
        file: the bytes of the file that the log closed.
        folder: where both are written.

    Raises:
        IntegrityError: the file is not the one that the log closed.
        DocumentError: the log is of another timeline, or breaks its own budget.
    """
    if sha256_hex(file) != log.final_file_sha256:
        raise IntegrityError(
            "curated-file-changed",
            f"{log.task_id}: expected a file with SHA-256 {log.final_file_sha256}, found {sha256_hex(file)}",
            hint="give the file that the log closed with --file",
        )
    sessions = [session.episode_id for session in log.sessions]
    episodes = [episode.episode_id for episode in history.episodes]
    if (log.task_id, sessions) != (history.task_id, episodes):
        raise DocumentError(
            "curator-log-of-another",
            f"expected one session for each episode of {history.task_id} ({', '.join(episodes[:4])}...), found {', '.join(sessions[:4])} of {log.task_id}",
            hint="name the task whose timeline was curated",
        )
    made = _converted(log, history)
    write_atomic(folder / FILE, file)
    write_atomic(folder / LOG, made.canonical() + b"\n")
    return made


def _converted(log: RememCuratorLog, history: History) -> HumanCuratorLog:
    steps = tuple(
        HumanStep(
            episode_id=session.episode_id,
            minutes_spent=session.minutes_spent,
            edit_count=session.edit_count,
            deletion_count=session.deletion_count,
            conflict_resolution_count=session.conflict_resolution_count,
            chars_after=session.chars_after,
        )
        for session in log.sessions
    )
    try:
        return HumanCuratorLog(
            task_id=log.task_id,
            curator_kind="human",
            minutes_by="report",
            target_blind=True,
            protocol=PROTOCOL,
            history_sha256=history.digest_sha256(),
            budget=CurationBudget(
                minutes_per_episode=log.budget.minutes_per_session, max_chars=log.budget.max_chars
            ),
            steps=steps,
            final_char_count=log.final_char_count,
            final_file_sha256=log.final_file_sha256,
        )
    except ValueError as error:
        raise DocumentError(
            "curator-log-invalid",
            f"{log.task_id}: expected a log within its own budget, found {error}",
            hint="such a file cannot stand in the budgeted arm",
        ) from error

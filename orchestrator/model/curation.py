"""Curated files: the log of how a MEMORY.md came to be, and the sitting in which a person keeps one.

A person's log and a program's are two types. Only the first has minutes, so nothing that needs maintenance
time, or that bears a claim, can be handed a synthetic file. Pure.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, Self

from pydantic import Field, TypeAdapter, model_validator

from orchestrator.model.base import Closed, Document, Sha256, Slug, parse_one_of, require_canonical

PROTOCOL: Final = "curated-file-budgeted-v1"
MILLISECONDS_PER_MINUTE = 60_000


class CurationBudget(Closed):
    """The curator's budget: minutes for each episode without roll-over, characters for the file."""

    minutes_per_episode: float = Field(gt=0, le=600)
    max_chars: int = Field(gt=0)

    @property
    def episode_ms(self) -> int:
        """The time for one episode, in milliseconds."""
        return int(self.minutes_per_episode * MILLISECONDS_PER_MINUTE)


class _Step(Closed):
    """What the curator did after reading one episode."""

    episode_id: Slug
    edit_count: int = Field(ge=0)
    deletion_count: int = Field(ge=0)
    conflict_resolution_count: int = Field(ge=0)
    chars_after: int = Field(ge=0)


class SyntheticStep(_Step):
    """A program's step; it has no minutes."""

    minutes_spent: None = None


class HumanStep(_Step):
    """A person's step. `undone`: the edits were over the cap when the time was up, and are not in the file.

    The digests are of the episode as read and of the file after it; null where a log of another tool has none.
    """

    minutes_spent: float = Field(ge=0)
    interruptions: int = Field(default=0, ge=0)
    undone: bool = False
    episode_sha256: Sha256 | None = None
    file_sha256: Sha256 | None = None


class _Log(Document):
    """What every curator's log says."""

    task_id: Slug
    target_blind: Literal[True]
    protocol: Literal["curated-file-budgeted-v1"]
    history_sha256: Sha256
    budget: CurationBudget
    final_char_count: int = Field(ge=0)
    final_file_sha256: Sha256


class SyntheticCuratorLog(_Log):
    """The log of a program. Its file can never bear a claim."""

    curator_kind: Literal["synthetic"]
    steps: tuple[SyntheticStep, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        _check_steps(self, self.steps)
        return self


class HumanCuratorLog(_Log):
    """The log of a person. `minutes_by`: `clock` was kept by memtrial, `report` is what somebody wrote down."""

    curator_kind: Literal["human"]
    minutes_by: Literal["clock", "report"]
    steps: tuple[HumanStep, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        _check_steps(self, self.steps)
        for step in self.steps:
            if step.minutes_spent > self.budget.minutes_per_episode:
                raise ValueError(
                    f"{step.episode_id}: minutes_spent {step.minutes_spent} is above the budget {self.budget.minutes_per_episode}"
                )
            if self.minutes_by == "clock" and None in (step.episode_sha256, step.file_sha256):
                raise ValueError(
                    f"{step.episode_id}: expected digests of episode and file beside minutes by the clock"
                )
        last = self.steps[-1].file_sha256
        if last not in {None, self.final_file_sha256}:
            raise ValueError("final_file_sha256 differs from the last step's file_sha256")
        return self

    @property
    def maintenance_minutes(self) -> float:
        """The minutes that keeping the file took, over all episodes."""
        return sum(step.minutes_spent for step in self.steps)


CuratorLog = SyntheticCuratorLog | HumanCuratorLog


def maintenance_s(log: CuratorLog) -> int | None:
    """Returns the whole seconds that keeping a file took a person; None for a program's."""
    return round(log.maintenance_minutes * 60) if isinstance(log, HumanCuratorLog) else None


CURATOR_LOG: TypeAdapter[CuratorLog] = TypeAdapter(
    Annotated[CuratorLog, Field(discriminator="curator_kind")]
)


def _check_steps(log: _Log, steps: tuple[SyntheticStep, ...] | tuple[HumanStep, ...]) -> None:
    last = steps[-1].chars_after
    if last != log.final_char_count:
        raise ValueError(
            f"final_char_count {log.final_char_count} differs from the last step's chars_after {last}"
        )
    for step in steps:
        if step.chars_after > log.budget.max_chars:
            raise ValueError(
                f"{step.episode_id}: chars_after {step.chars_after} is above the cap {log.budget.max_chars}"
            )


def parse_curator_log(data: bytes, *, where: str, canonical: bool = False) -> CuratorLog:
    """Parses a curator log; `curator_kind` decides whose.

    Args:
        data: the exact bytes.
        where: name of the document for the error text.
        canonical: refuse all but its RFC 8785 bytes, as a record holds them.

    Raises:
        DocumentError: not strict JSON, no known kind of curator, or a log that contradicts itself.
    """
    log = parse_one_of(CURATOR_LOG, data, where=where, what="curator log", schema="curator-log")
    if canonical:
        require_canonical(log, data, where=where, what="curator log")
    return log


class OpenStep(Closed):
    """The episode that a person is at: what the clock has counted, and the file as last saved under it."""

    episode_id: Slug
    spent_ms: int = Field(default=0, ge=0)
    interruptions: int = Field(default=0, ge=0)
    text: str


class CurationSitting(Document):
    """Where a person is in a timeline. Written at every turn, so that a killed sitting goes on where it was."""

    task_id: Slug
    history_sha256: Sha256
    budget: CurationBudget
    steps: tuple[HumanStep, ...] = ()
    open_step: OpenStep | None = None

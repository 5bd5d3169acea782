"""The log of a person who resolved what a memory system held back: what, how, and how long it took. Pure.

Its seconds are the maintenance time of an end-to-end arm; without such a log that time is unknown.
"""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from orchestrator.model.base import Closed, Document, Sha256, Slug, UtcTime
from orchestrator.model.lifecycle import ReviewUse, Said

MAX_LOG_BYTES = 4 * 1024 * 1024


class ReviewEntry(Closed):
    """One held candidate and what a person made of it. Time in whole seconds, from shown to answered."""

    candidate_id: Slug
    text_sha256: Sha256
    evidence_event_ids: tuple[Slug, ...]
    action: Literal["promote", "reject"]
    seconds_spent: int = Field(ge=0)
    decided_at: UtcTime


class ReviewPin(Closed):
    """The log by which a person resolved what one arm held back over one task's sessions. Time in seconds."""

    condition_id: Slug
    task_id: Slug
    log_sha256: Sha256
    held: int = Field(ge=0)
    resolved: int = Field(ge=0)
    seconds_spent: int = Field(ge=0)


class ReviewLog(Document):
    """A review of one frozen store by one person.

    `sessions_sha256` is of what the system was told, `dump_sha256` of the store that it made of it: the answers
    are for that store and for no other. `seconds_unanswered` is time before a candidate that ended in no answer.
    """

    condition_id: Slug
    adapter: Slug
    variant: Slug | None
    sessions_sha256: Sha256
    dump_sha256: Sha256
    reviewer_kind: Literal["human"]
    reviewer: Said
    held: int = Field(ge=0)
    entries: tuple[ReviewEntry, ...]
    seconds_unanswered: int = Field(default=0, ge=0)
    seconds_total: int = Field(ge=0)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        ids = [entry.candidate_id for entry in self.entries]
        if len(set(ids)) != len(ids):
            raise ValueError("a candidate is resolved once")
        if len(ids) > self.held:
            raise ValueError("more candidates are resolved than were held")
        answered = sum(entry.seconds_spent for entry in self.entries)
        if self.seconds_total != answered + self.seconds_unanswered:
            raise ValueError("seconds_total is the sum of the entries and of seconds_unanswered")
        return self

    @property
    def open(self) -> int:
        """How many held candidates wait still."""
        return self.held - len(self.entries)

    def pin(self, condition_id: str, task_id: str) -> ReviewPin:
        """Returns the pin of this log in a plan, for an arm and a task."""
        return ReviewPin(
            condition_id=condition_id,
            task_id=task_id,
            log_sha256=self.digest_sha256(),
            held=self.held,
            resolved=len(self.entries),
            seconds_spent=self.seconds_total,
        )

    def used(self) -> ReviewUse:
        """Returns what a system says that has carried these answers out."""
        return ReviewUse(
            log_sha256=self.digest_sha256(),
            resolved=len(self.entries),
            open=self.open,
            seconds_spent=self.seconds_total,
        )

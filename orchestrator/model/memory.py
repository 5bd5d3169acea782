"""What memory put before the agent: the frozen snapshot of a store, and the injection itself."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from orchestrator.model.base import Closed, Document, Sha256, Slug, Text
from orchestrator.model.condition import Delivery
from orchestrator.model.lifecycle import (
    CompiledContext,
    ContractFailure,
    DroppedItem,
    IncludedItem,
    Step,
    StepRecord,
)


class MemoryItem(Closed):
    """One retrieved or curated piece of memory, in rank order."""

    item_id: Slug
    text: Text
    source_event_ids: tuple[Slug, ...] = ()


class CaptureDrop(Closed):
    """An event that capture did not store, and why."""

    event_id: Slug
    reason: Text


class Remembered(Document):
    """The outcome of `remember`: every step of a memory system's life, and what the last one gave.

    With a `failure` nothing reaches the agent: the trial goes on without memory and counts against its arm.
    `store_sha256` is the digest of the frozen dump, `archive_sha256` that of the work folder's archive.
    """

    condition_id: Slug
    adapter: Slug
    captured_events: int = Field(ge=0)
    capture_drops: tuple[CaptureDrop, ...] = ()
    store_sha256: Sha256 | None
    archive_sha256: Sha256 | None = None
    items: tuple[MemoryItem, ...]
    steps: tuple[StepRecord, ...] = ()
    context: CompiledContext | None = None
    failure: ContractFailure | None = None

    @model_validator(mode="after")
    def _a_failure_delivers_nothing(self) -> Self:
        if self.failure is not None and self.context is not None:
            raise ValueError("a memory system that broke its contract delivers no context")
        if self.failure is not None and self.failure.step is Step.CLOSE:
            raise ValueError("what breaks at the close, after the delivery, is no failed delivery")
        return self


class Injection(Document):
    """Exactly what memory put before the agent, by the channel that its arm declares.

    `tokens` counts all that it adds: the text and the frame around it. `prompt_sha256` is of the prompt as the
    agent gets it, which holds the text under `prompt_prefix` alone. Tools put nothing before an agent.
    """

    condition_id: Slug
    channel: Delivery
    text: str
    text_sha256: Sha256
    unit: Literal["o200k_base"]
    tokens: int = Field(ge=0)
    max_tokens: int = Field(ge=0)
    included: tuple[IncludedItem, ...]
    dropped: tuple[DroppedItem, ...]
    prompt_sha256: Sha256

    @model_validator(mode="after")
    def _within_budget(self) -> Self:
        if self.tokens > self.max_tokens:
            raise ValueError(f"{self.tokens} tokens are above the budget of {self.max_tokens}")
        return self

"""Where each fact of the answer key went, stage by stage, in one trial: made by graders, from recorded documents.

Pure documents. A trace names ids and counts, never a text of the key. What a system hides is `hidden`, never
guessed. Attribution and the assessment of an audit follow from it without the key.
"""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from orchestrator.model.base import Closed, Document, Sha256, Slug, Text
from orchestrator.model.lifecycle import (
    ContractFailure,
    DropReason,
    Information,
    Observed,
    Step,
)

TRACE = "memory-trace"
"""The name of a trace among the artifacts of a trial's grade."""

MemoryStatus = Literal["verified", "contract_failure", "not_applicable"]
"""What is known of the memory contract in one trial; told beside the verdict and never merged with it."""


def contract_status(
    failure: ContractFailure | None, information: Information | None
) -> MemoryStatus:
    """Returns the status of the memory contract in a trial.

    Args:
        failure: how it was broken, if it was; what broke its contract is a memory system, whatever it calls itself.
        information: what the system said that it learns from; None if it did not get to say so.
    """
    if failure is not None:
        return "contract_failure"
    return "verified" if information in {"raw", "gold"} else "not_applicable"


class CandidateSeen(Closed):
    """A candidate that holds the fact, and what became of it."""

    candidate_id: Slug
    decision: Literal["promote", "hold", "reject"]
    rule: Slug
    own_scope: bool
    memory_id: Slug | None = None


class MemorySeen(Closed):
    """A stored memory that holds the fact."""

    memory_id: Slug
    status: Literal["active", "superseded", "held"]
    own_scope: bool


class DropSeen(Closed):
    """A ranked item that holds the fact and was not compiled."""

    item_id: Slug
    reason: DropReason


class StaleSeen(Closed):
    """A superseded value that is the counterpart of a fact. `linked`: the store knows that the two conflict.

    `included`: of the active ones those that the agent was given, none where what it was given does not hold the value.
    """

    stale_id: Slug
    active: tuple[Slug, ...]
    included: tuple[Slug, ...]
    linked: bool
    followed: bool


class ToolsAsked(Closed):
    """How an agent used the tools that its memory was given as.

    `questions` were answered; of the answers `heard` came before the model. `by_prompt` are the facts that the
    task's own prompt, asked as it is, would have found.
    """

    questions: int = Field(ge=0)
    heard: int = Field(ge=0)
    by_prompt: tuple[Slug, ...]


class FactTrace(Closed):
    """One fact on its way. Lists hold the ids of what carries it at each stage, in the stage's own order.

    `captured` are supporting events that were captured, `survived` says whether they still hold the fact together.
    `unsupported` are active memories in the fact's place that rest on no event that says so. `included` are of the
    ranked those that the agent was given; none where they hold the fact only together with one that was left out.
    """

    fact_id: Slug
    supporting: tuple[Slug, ...]
    captured: tuple[Slug, ...]
    survived: bool
    candidates: tuple[CandidateSeen, ...]
    memories: tuple[MemorySeen, ...]
    unsupported: tuple[Slug, ...]
    stale: tuple[StaleSeen, ...]
    ranked: tuple[Slug, ...]
    included: tuple[Slug, ...]
    dropped: tuple[DropSeen, ...]
    delivered: bool


class MemoryTrace(Document):
    """The facts of one trial, and how crowded the ranking was. `clusters` counts distinct items of it.

    `extracts` says whether the system proposes candidates at all; one that keeps raw events does not. `stages`
    are those that the registry names for the arm; none stands for all. `asked` is given exactly for an arm whose
    agent asks tools: what is ranked, included and dropped is then that of all answers, and delivered is what stood
    in those that came before the model.
    """

    trial: Text
    remembered_sha256: Sha256
    injection_sha256: Sha256
    key_sha256: Sha256
    information: Information | None
    shows: tuple[Observed, ...]
    extracts: bool
    stages: tuple[Slug, ...] = ()
    k: int = Field(ge=0)
    ranked: int = Field(ge=0)
    clusters: int = Field(ge=0)
    facts: tuple[FactTrace, ...]
    stale_included: tuple[Slug, ...]
    stale_followed: tuple[Slug, ...]
    cited: tuple[Slug, ...]
    failure: ContractFailure | None = None
    asked: ToolsAsked | None = None

    @model_validator(mode="after")
    def _the_close_delivers_nothing(self) -> Self:
        if self.failure is not None and self.failure.step is Step.CLOSE:
            raise ValueError("what breaks at the close, after the delivery, is no failed delivery")
        return self

    def has(self, stage: str) -> bool:
        """Whether the arm has a stage that could fail."""
        return not self.stages or stage in self.stages

    @property
    def applies(self) -> bool:
        """Whether the arm has a memory system."""
        return self.status != "not_applicable"

    @property
    def status(self) -> MemoryStatus:
        """The status of the memory contract."""
        return contract_status(self.failure, self.information)

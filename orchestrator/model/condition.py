"""Conditions (arms) and the token budget that all memory-bearing arms share."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from orchestrator.model.base import Closed, Document, Sha256, Slug, Text
from orchestrator.model.isolation import Additions


class MemoryBudget(Closed):
    """How much memory text may be injected. `unit` is the frozen tokenizer that counts it."""

    unit: Literal["o200k_base"]
    max_tokens: int = Field(gt=0, le=1_000_000)


class Condition(Closed):
    """One arm. `adapter` names the code; `claim_bearing` follows from the role."""

    id: Slug
    role: Literal["primary", "diagnostic", "control"]
    summary: Text
    adapter: Slug
    budget: MemoryBudget | None = None
    retrieve_k: int | None = Field(default=None, gt=0, le=1000)
    forbidden_shortcuts: tuple[Text, ...] = ()
    adds: Additions = Additions()

    @model_validator(mode="after")
    def _budget_belongs_to_memory(self) -> Self:
        if (self.adapter == "none") != (self.budget is None):
            raise ValueError("a budget is given exactly when the adapter delivers memory")
        if self.retrieve_k is not None and self.budget is None:
            raise ValueError("retrieve_k is given only when the adapter delivers memory")
        return self

    @property
    def claim_bearing(self) -> bool:
        """Whether a claim may ever rest on this arm."""
        return self.role == "primary"


class ConditionRegistry(Document):
    """The single source of condition ids."""

    conditions: tuple[Condition, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _unique(self) -> Self:
        ids = [condition.id for condition in self.conditions]
        if len(set(ids)) != len(ids):
            raise ValueError("condition ids must be unique")
        return self


class CurationBudget(Closed):
    """The curator's budget: minutes for each episode without roll-over, characters for the file."""

    minutes_per_episode: int = Field(gt=0)
    max_chars: int = Field(gt=0)


class CurationStep(Closed):
    """What the curator did after reading one episode. `minutes_spent` is null for a synthetic one."""

    episode_id: Slug
    minutes_spent: float | None = Field(default=None, ge=0)
    edit_count: int = Field(ge=0)
    deletion_count: int = Field(ge=0)
    conflict_resolution_count: int = Field(ge=0)
    chars_after: int = Field(ge=0)


class CuratorLog(Document):
    """How a MEMORY.md came to be. A synthetic curator's file can never bear a claim."""

    task_id: Slug
    curator_kind: Literal["human", "synthetic"]
    target_blind: Literal[True]
    protocol: Literal["curated-file-budgeted-v1"]
    history_sha256: Sha256
    budget: CurationBudget
    steps: tuple[CurationStep, ...] = Field(min_length=1)
    final_char_count: int = Field(ge=0)
    final_file_sha256: Sha256

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        last = self.steps[-1].chars_after
        if last != self.final_char_count:
            raise ValueError(
                f"final_char_count {self.final_char_count} differs from the last step's chars_after {last}"
            )
        for step in self.steps:
            if step.chars_after > self.budget.max_chars:
                raise ValueError(
                    f"{step.episode_id}: chars_after {step.chars_after} is above the cap {self.budget.max_chars}"
                )
            if (step.minutes_spent is None) != (self.curator_kind == "synthetic"):
                raise ValueError(
                    f"{step.episode_id}: minutes_spent is given for a human curator and for no other"
                )
            if (
                step.minutes_spent is not None
                and step.minutes_spent > self.budget.minutes_per_episode
            ):
                raise ValueError(
                    f"{step.episode_id}: minutes_spent {step.minutes_spent} is above the budget {self.budget.minutes_per_episode}"
                )
        return self

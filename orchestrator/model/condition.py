"""Conditions (arms) and the token budget that all memory-bearing arms share."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from orchestrator.model.base import Closed, Document, Sha256, Slug, Text
from orchestrator.model.isolation import Additions
from orchestrator.model.paths import RelativePath


class MemoryBudget(Closed):
    """How much memory text may be injected. `unit` is the frozen tokenizer that counts it."""

    unit: Literal["o200k_base"]
    max_tokens: int = Field(gt=0, le=1_000_000)


Delivery = Literal["prompt_prefix", "session_start_hook", "agents_md", "mcp"]
"""How memory reaches the agent. `prompt_prefix` works with every agent; the others are native channels."""


class Condition(Closed):
    """One arm: which memory system, what it may learn from, how much it may say, and what it must not do.

    `adapter_sha256` pins the code of a built-in system, the package behind an entry point, or the program
    folder of a command. `stages` are the parts of the path that a failure of this arm can be charged to.
    `door: gold` hands facts of the answer key over: such an arm is a bound or a probe and bears no claim.
    An entry point runs in memtrial's own process, so its arm is diagnostic; a product that is to bear claims
    comes as a program in a container of its own. `product` is the pinned layer that such a program drives.
    `reviews` is the folder of logs (TASK.json) by which people resolved what the system held back; the system
    carries their answers out, and their time is the arm's maintenance.
    """

    id: Slug
    role: Literal["primary", "diagnostic", "control"]
    claim_bearing: bool = False
    standard: bool = False
    summary: Text
    adapter: Slug
    adapter_kind: Literal["builtin", "entry_point", "command"] = "builtin"
    adapter_sha256: Sha256 | None = None
    variant: Slug | None = None
    program: RelativePath | None = None
    product: Slug | None = None
    reviews: RelativePath | None = None
    door: Literal["sessions", "gold"] = "sessions"
    delivery: Delivery = "prompt_prefix"
    stages: tuple[Slug, ...] = ()
    budget: MemoryBudget | None = None
    retrieve_k: int | None = Field(default=None, gt=0, le=1000)
    files_in_scope: bool = False
    forbidden_shortcuts: tuple[Text, ...] = ()
    adds: Additions = Additions()

    @property
    def gives_tools(self) -> bool:
        """Whether the agent asks tools for its memory, and nothing is put before it."""
        return self.delivery == "mcp"

    @model_validator(mode="after")
    def _budget_belongs_to_memory(self) -> Self:
        if (self.adapter == "none") != (self.budget is None):
            raise ValueError("a budget is given exactly when the adapter delivers memory")
        if self.retrieve_k is not None and self.budget is None:
            raise ValueError("retrieve_k is given only when the adapter delivers memory")
        if (self.adapter_kind == "command") != (self.program is not None):
            raise ValueError("program is given for adapter_kind command and for no other")
        if self.product is not None and self.program is None:
            raise ValueError("product is given only with the program that drives it")
        if self.reviews is not None and (self.adapter_kind != "builtin" or self.budget is None):
            raise ValueError("reviews are given only to a built-in memory system")
        return self

    @model_validator(mode="after")
    def _only_a_primary_arm_without_the_key_bears_claims(self) -> Self:
        if self.claim_bearing and self.role != "primary":
            raise ValueError("only a primary arm bears a claim")
        if self.door == "gold" and self.role == "primary":
            raise ValueError("an arm that is told gold facts is never primary")
        return self

    @model_validator(mode="after")
    def _code_in_our_process_only_diagnoses(self) -> Self:
        if self.adapter_kind == "entry_point" and self.role != "diagnostic":
            raise ValueError(
                "an arm by entry point runs unconfined in memtrial's process: its role is diagnostic"
            )
        return self


class FailureStage(Closed):
    """A stage of the path from capture to code, and the ways in which it fails."""

    stage: Slug
    failures: tuple[Slug, ...] = Field(min_length=1)


class LegacyId(Closed):
    """An id that was used once or elsewhere, and the one that is meant."""

    id: Slug
    use: Slug


class ConditionRegistry(Document):
    """The single source of condition ids, and of the stages that failures are charged to."""

    conditions: tuple[Condition, ...] = Field(min_length=1)
    failure_stages: tuple[FailureStage, ...] = ()
    legacy: tuple[LegacyId, ...] = ()

    @model_validator(mode="after")
    def _unique(self) -> Self:
        ids = [condition.id for condition in self.conditions]
        ids += [old.id for old in self.legacy]
        if len(set(ids)) != len(ids):
            raise ValueError("condition ids must be unique, legacy ids included")
        unknown = {old.use for old in self.legacy} - {c.id for c in self.conditions}
        if unknown:
            raise ValueError(f"legacy ids must lead to conditions, found {min(unknown)}")
        return self

    @model_validator(mode="after")
    def _stages_are_known(self) -> Self:
        known = {entry.stage for entry in self.failure_stages}
        for condition in self.conditions:
            unknown = set(condition.stages) - known
            if unknown:
                raise ValueError(
                    f"{condition.id}: expected stages of failure_stages, found {min(unknown)}"
                )
        return self


class AddedConditions(Document):
    """Arms that a user adds to the registry, in a file of their own; none of them bears a claim."""

    conditions: tuple[Condition, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _no_claims(self) -> Self:
        for condition in self.conditions:
            if condition.claim_bearing or condition.standard:
                raise ValueError(
                    f"{condition.id}: an added arm is neither standard nor claim_bearing"
                )
        return self

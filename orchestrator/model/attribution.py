"""What a failed trial is charged to: one stage and one failure of the path from capture to code, or why to none.

Pure. The reason of the task's failure is another fact (`verdict.FailureReason`), and so is a broken contract.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, Self

from pydantic import Field, model_validator

from orchestrator.model.base import Closed, Slug, Text


class PathStage(StrEnum):
    """The stages of the path, in order."""

    CAPTURE = "capture"
    EXTRACTION = "extraction"
    CONSOLIDATION = "consolidation"
    RETRIEVAL = "retrieval"
    CONTEXT_COMPILATION = "context_compilation"
    READER_USE = "reader_use"


class Failure(StrEnum):
    """How a stage failed."""

    EVIDENCE_NOT_CAPTURED = "evidence_not_captured"
    DURABLE_FACT_MISSED = "durable_fact_missed"
    UNSUPPORTED_CLAIM_SAVED = "unsupported_claim_saved"
    WRONG_SCOPE = "wrong_scope"
    UPDATE_NOT_APPLIED = "update_not_applied"
    CONFLICT_NOT_DETECTED = "conflict_not_detected"
    STALE_MEMORY_NOT_INVALIDATED = "stale_memory_not_invalidated"
    RELEVANT_MEMORY_MISSING = "relevant_memory_missing"
    IRRELEVANT_MEMORY_SELECTED = "irrelevant_memory_selected"
    CONTEXT_BUDGET_DROPPED = "context_budget_dropped"
    RETRIEVED_BUT_IGNORED = "retrieved_but_ignored"
    MEMORY_MISAPPLIED = "memory_misapplied"


STAGE_OF: dict[Failure, PathStage] = {
    Failure.EVIDENCE_NOT_CAPTURED: PathStage.CAPTURE,
    Failure.DURABLE_FACT_MISSED: PathStage.EXTRACTION,
    Failure.UNSUPPORTED_CLAIM_SAVED: PathStage.EXTRACTION,
    Failure.WRONG_SCOPE: PathStage.EXTRACTION,
    Failure.UPDATE_NOT_APPLIED: PathStage.CONSOLIDATION,
    Failure.CONFLICT_NOT_DETECTED: PathStage.CONSOLIDATION,
    Failure.STALE_MEMORY_NOT_INVALIDATED: PathStage.CONSOLIDATION,
    Failure.RELEVANT_MEMORY_MISSING: PathStage.RETRIEVAL,
    Failure.IRRELEVANT_MEMORY_SELECTED: PathStage.RETRIEVAL,
    Failure.CONTEXT_BUDGET_DROPPED: PathStage.CONTEXT_COMPILATION,
    Failure.RETRIEVED_BUT_IGNORED: PathStage.READER_USE,
    Failure.MEMORY_MISAPPLIED: PathStage.READER_USE,
}
"""The stage of each failure; the registry of conditions publishes the same table."""

ORACLE_CONDITION = "oracle_evidence"
"""The arm that hands the evidence to the agent: it tells a reader that fails from a task that is too hard."""

CONTROL_CONDITION = "no_memory"
"""The arm that a memory helped or hurt against."""

ChargedTo = Literal["stage", "not_memory", "stage_opaque", "undetermined_no_oracle"]


class Charge(Closed):
    """To what one failed trial of a memory-bearing arm is charged.

    `stage` and `failure` are given exactly for a charge to a stage. For `stage_opaque` the fact was lost
    somewhere from the first to the last of `possible`; what lies between is hidden by the system.
    """

    to: ChargedTo
    stage: PathStage | None = None
    failure: Failure | None = None
    subreason: Slug | None = None
    fact_id: Slug | None = None
    possible: tuple[PathStage, ...] = ()
    evidence: tuple[Text, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _one_stage_and_one_failure(self) -> Self:
        charged = self.to == "stage"
        if charged != (self.stage is not None) or charged != (self.failure is not None):
            raise ValueError("stage and failure are given exactly for a charge to a stage")
        if self.failure is not None and STAGE_OF[self.failure] is not self.stage:
            raise ValueError(f"{self.failure.value} is no failure of {self.stage}")
        if (self.to == "stage_opaque") != bool(self.possible):
            raise ValueError("possible is given exactly for stage_opaque")
        return self

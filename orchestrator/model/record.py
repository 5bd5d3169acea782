"""What a run writes down: ledger entries, attempts and their stages. Times live here, outside verdicts."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from orchestrator.model.base import Closed, Document, Sha256, Slug, Text, UtcTime
from orchestrator.model.lifecycle import StepRecord
from orchestrator.model.outcome import GRADED, MAY_BE_GRADED, Outcome
from orchestrator.model.resources import Resources


class Stage(StrEnum):
    """The stages of a trial, in order."""

    PREPARE = "prepare"
    REMEMBER = "remember"
    INJECT = "inject"
    ISOLATE = "isolate"
    ACT = "act"
    HARVEST = "harvest"
    SCREEN = "screen"
    GRADE = "grade"
    SEAL = "seal"


class Artifact(Closed):
    """A content-addressed blob, by what it is."""

    name: Slug
    sha256: Sha256
    bytes: int = Field(ge=0)


class RunStarted(Closed):
    """First entry of a ledger.

    `program_sha256` is of the source that began the run; ledgers of earlier versions have none, and no field.
    """

    kind: Literal["run_started"] = "run_started"
    run_id: Slug
    plan_sha256: Sha256
    engine: Text
    workers: int = Field(gt=0)
    program_sha256: Sha256 | None = None

    @model_serializer(mode="wrap")
    def _as_it_was_written(self, make: SerializerFunctionWrapHandler) -> dict[str, object]:
        found: dict[str, object] = make(self)
        if self.program_sha256 is None:
            del found["program_sha256"]
        return found


class RunApproved(Closed):
    """A live run was allowed: which approval, and what the run's evidence is worth at most."""

    kind: Literal["run_approved"] = "run_approved"
    approval_sha256: Sha256
    approval_id: Slug
    signers: tuple[Sha256, ...] = Field(min_length=1)
    standing: Literal["directional", "rehearsal", "official"]
    max_usd_micros: int = Field(gt=0)
    expires_s: int = Field(gt=0)


class RunResumed(Closed):
    """A later process took the run up again."""

    kind: Literal["run_resumed"] = "run_resumed"
    torn_tail_bytes: int = Field(ge=0)


class AttemptStarted(Closed):
    """A physical execution of a trial began."""

    kind: Literal["attempt_started"] = "attempt_started"
    trial: Text
    attempt: int = Field(gt=0)


class StageDone(Closed):
    """A stage ended; its document is a blob. `container_ms` is the time with a container step under way."""

    kind: Literal["stage_done"] = "stage_done"
    trial: Text
    attempt: int = Field(gt=0)
    stage: Stage
    document_sha256: Sha256
    artifacts: tuple[Artifact, ...]
    wall_ms: int = Field(ge=0)
    container_ms: int = Field(ge=0)
    resources: Resources | None = None


class MemoryStep(Closed):
    """A step of the memory system ended, within stage `remember`; its answer is a blob of that stage."""

    kind: Literal["memory_step"] = "memory_step"
    trial: Text
    attempt: int = Field(gt=0)
    record: StepRecord
    wall_ms: int = Field(ge=0)


class AttemptEnded(Closed):
    """How an attempt ended. A graded outcome carries a verdict; any other is never scored."""

    kind: Literal["attempt_ended"] = "attempt_ended"
    trial: Text
    attempt: int = Field(gt=0)
    outcome: Outcome
    verdict_sha256: Sha256 | None
    error_reference: str | None
    error: str | None
    evidence: Artifact | None = None
    resources: Resources | None = None
    wall_ms: int = Field(ge=0)
    container_ms: int = Field(ge=0)

    @model_validator(mode="after")
    def _a_verdict_exactly_when_graded(self) -> Self:
        graded = self.verdict_sha256 is not None
        if self.outcome not in MAY_BE_GRADED if graded else self.outcome in GRADED:
            raise ValueError(
                f"outcome {self.outcome.value} with{'' if graded else 'out'} a verdict"
            )
        return self

    @property
    def final(self) -> bool:
        """Whether the trial is never attempted again: it has its verdict, or its block is dropped."""
        return self.verdict_sha256 is not None or self.outcome is Outcome.INADMISSIBLE


class RunEnded(Closed):
    """Last entry of a process that ran to its end."""

    kind: Literal["run_ended"] = "run_ended"
    trials: int = Field(ge=0)
    completed: int = Field(ge=0)
    wall_ms: int = Field(ge=0)


Body = Annotated[
    RunStarted
    | RunApproved
    | RunResumed
    | AttemptStarted
    | MemoryStep
    | StageDone
    | AttemptEnded
    | RunEnded,
    Field(discriminator="kind"),
]


class LedgerEntry(Document):
    """One line of the record ledger. `prev_sha256` is the digest of the previous line's bytes."""

    seq: int = Field(ge=0)
    prev_sha256: Sha256
    at: UtcTime
    body: Body


class Prepared(Document):
    """What stood ready before memory and agent came in: the pinned world of this trial.

    `runtime` is what ran the agent's container by the engine's account, also where the plan names none.
    """

    task_id: Slug
    agent_image: Text
    verifier_image: Text
    tree: Text
    profile_sha256: Sha256
    runtime: Text


class Sealed(Document):
    """Closes a trial: binds its documents to one another."""

    trial: Text
    plan_sha256: Sha256
    prepared_sha256: Sha256
    remembered_sha256: Sha256
    injection_sha256: Sha256
    isolation_sha256: Sha256
    acted_sha256: Sha256
    harvest_sha256: Sha256
    screening_sha256: Sha256
    verdict_sha256: Sha256

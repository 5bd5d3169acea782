"""The report of a run: only what can be recomputed from ledger, blobs and plan."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from orchestrator.core.strictjson import MAX_BYTES
from orchestrator.model.attribution import Charge, ChargedTo, Failure, PathStage
from orchestrator.model.base import Closed, Document, Sha256, Slug, Text
from orchestrator.model.outcome import Outcome
from orchestrator.model.resources import ArmResources, Resources
from orchestrator.model.spending import ArmSpending, OwnUsage, RunSpending, Spending
from orchestrator.model.trace import MemoryStatus
from orchestrator.model.verdict import FailureReason

ROW_BYTES = 64 * 1024
"""The most that one trial's row may take: texts of the record stand in it as they are."""


class Count(Closed):
    """So many of so many."""

    passed: int = Field(ge=0)
    of: int = Field(ge=0)


class ReasonCount(Closed):
    """How often a failure reason occurred."""

    reason: FailureReason
    count: int = Field(gt=0)


class OutcomeCount(Closed):
    """How often attempts came to an outcome."""

    outcome: Outcome
    attempts: int = Field(gt=0)


class Block(Closed):
    """A task x epoch that is left out of every rate, because the harness broke its promise in it."""

    task_id: Slug
    epoch: int = Field(gt=0)
    because: tuple[Text, ...] = Field(min_length=1)


class ArmRow(Closed):
    """One row of the table: an agent under a condition.

    All counts of verdicts, tests and reasons are over trials that are not dropped; `attempts` and
    `outcomes` are over all of them, retried ones included. `resolved` counts verdicts whose memory contract held;
    reasons and tests are the verdicts' alone.
    """

    agent: Slug
    condition_id: Slug
    trials: int = Field(ge=0)
    dropped: int = Field(ge=0)
    verdicts: int = Field(ge=0)
    resolved: Count
    fail_to_pass: Count
    fail_to_pass_memory: Count
    pass_to_pass: Count
    memory_tokens_median: int = Field(ge=0)
    wall_ms_median: int = Field(ge=0)
    failure_counts: tuple[ReasonCount, ...]
    memory_failure_counts: tuple[ReasonCount, ...]
    attempts: int = Field(ge=0)
    outcomes: tuple[OutcomeCount, ...]
    resources: ArmResources
    spending: ArmSpending | None = None


class ChargeCount(Closed):
    """How many failed trials were charged to a stage and failure, or to none for one reason."""

    to: ChargedTo
    stage: PathStage | None
    failure: Failure | None
    count: int = Field(gt=0)


class MemoryRow(Closed):
    """Memory in one arm that has any: what failed trials are charged to, and how the contract was kept.

    `helped` and `hurt` count trials against the same cell without memory; `compared` says how many have one.
    """

    agent: Slug
    condition_id: Slug
    failed: int = Field(ge=0)
    charges: tuple[ChargeCount, ...]
    verified: int = Field(ge=0)
    contract_failures: int = Field(ge=0)
    not_applicable: int = Field(ge=0)
    compared: int = Field(ge=0)
    helped: int = Field(ge=0)
    hurt: int = Field(ge=0)


class MaintenanceRow(Closed):
    """What keeping the memory of one arm took people, in whole seconds over all tasks; null where nobody knows.

    `why` says where the figure is from, or what is missing for one.
    """

    condition_id: Slug
    seconds: int | None = Field(ge=0)
    why: Text


class TrialRow(Closed):
    """One trial, with the reason in words. `status` is its verdict's, `memory_status` its contract's: an arm counts both."""

    trial: Text
    task_id: Slug
    condition_id: Slug
    agent: Slug
    epoch: int = Field(gt=0)
    status: Literal["resolved", "unresolved", "dropped", "no_verdict"]
    outcome: Outcome | None
    failure_reason: FailureReason | None
    why: str
    charge: Charge | None = None
    memory_status: MemoryStatus | None = None
    memory_tokens: int | None
    verdict_sha256: Sha256 | None
    attempts: int = Field(ge=0)
    wall_ms: int = Field(ge=0)
    container_ms: int = Field(ge=0)
    resources: Resources | None
    spending: Spending | None = None
    own_usage: OwnUsage | None = None


class RunReport(Document):
    """What a run shows, and what it does not. `processes` worked on it: one, and one for each resume."""

    run_id: Slug
    plan_sha256: Sha256
    ledger_head_sha256: Sha256
    source_revision: Text
    source_dirty: bool
    diagnostic: bool
    complete: bool
    arms: tuple[ArmRow, ...]
    memory: tuple[MemoryRow, ...] = ()
    maintenance: tuple[MaintenanceRow, ...] = ()
    trials: tuple[TrialRow, ...]
    inadmissible_blocks: tuple[Block, ...]
    spending: RunSpending | None = None
    wall_ms: int = Field(ge=0)
    container_ms: int = Field(ge=0)
    workers: int = Field(gt=0)
    processes: int = Field(gt=0)
    limitations: tuple[Text, ...]


def report_bytes(trials: int) -> int:
    """Returns how large a report may be that is read again: a base, and for each trial its row with its reasons."""
    return MAX_BYTES + trials * ROW_BYTES

"""Harvest and verdict: what the agent changed and what the graders found. No times, no ids of attempts."""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from orchestrator.model.base import Closed, Document, GitId, Sha256, Slug, Text
from orchestrator.model.spending import OwnUsage
from orchestrator.model.task import RunnerKind


class FailureReason(StrEnum):
    """Why a trial is unresolved: one fixed list, the most telling reason first wins."""

    TEST_FAILURE = "test_failure"
    TIMEOUT = "timeout"
    COMPILE_FAILURE = "compile_failure"
    WRONG_FILE_MODIFIED = "wrong_file_modified"
    IGNORED_MEMORY = "ignored_memory"
    MISSING_MEMORY = "missing_memory"
    STALE_MEMORY_FOLLOWED = "stale_memory_followed"
    IRRELEVANT_MEMORY_DISTRACTED = "irrelevant_memory_distracted"
    OVER_CONTEXT_BUDGET = "over_context_budget"
    AGENT_HALLUCINATED_MEMORY = "agent_hallucinated_memory"
    ORACLE_INCONCLUSIVE = "oracle_inconclusive"


MEMORY_REASONS = frozenset(
    {
        FailureReason.IGNORED_MEMORY,
        FailureReason.MISSING_MEMORY,
        FailureReason.STALE_MEMORY_FOLLOWED,
        FailureReason.IRRELEVANT_MEMORY_DISTRACTED,
        FailureReason.OVER_CONTEXT_BUDGET,
        FailureReason.AGENT_HALLUCINATED_MEMORY,
    }
)


Ended = Literal["exited", "time_limit", "output_limit", "oom_killed", "model_budget", "tool_budget"]


class Acted(Document):
    """How the agent's process ended. `exit_code` is null when the container was killed.

    `model_budget` and `tool_budget`: it asked its model, or its memory's tools, for more than a bound lets through.
    """

    agent: Slug
    ended: Ended
    exit_code: int | None
    output_sha256: Sha256
    output_bytes: int = Field(ge=0)
    output_truncated: bool
    # What the agent's own events say that it used; the spend book decides, this is compared with it.
    own_usage: OwnUsage | None = None


class Change(Closed):
    """One changed path against the pinned tree. Modes are git's, null where the side is absent."""

    path: Text
    status: Literal["added", "modified", "deleted"]
    old_mode: str | None
    new_mode: str | None
    blob: GitId | None
    bytes: int = Field(ge=0)
    link_target: str | None = None


class LeftOut(Closed):
    """Something in the work area that cannot be part of a diff, and why it was left out.

    By-products of tools (caches, compiled files) and nested git folders are left out without blame.
    """

    name: Text
    reason: Literal[
        "by-product",
        "git-folder",
        "special-file",
        "name-not-utf8",
        "name-too-long",
        "name-not-portable",
        "too-large",
        "unreadable",
    ]


class Harvest(Document):
    """The only thing that leaves the agent's container."""

    pinned_tree: GitId
    tree: GitId
    diff_sha256: Sha256
    diff_bytes: int = Field(ge=0)
    diff_truncated: bool
    changes: tuple[Change, ...]
    left_out: tuple[LeftOut, ...]


class Violation(Closed):
    """A broken rule about paths or patterns, with the path or pattern at fault."""

    rule: Literal[
        "outside_allowed_paths",
        "forbidden_path",
        "hidden_test_path",
        "symlink",
        "unusable_name",
        "diff_too_large",
        "required_pattern_missing",
        "forbidden_pattern_added",
        "misconduct",
    ]
    subject: Text
    detail: Text


class TestStatus(Closed):
    """Status of one normalised test id; equal ids are merged and pass only if all of them pass."""

    # The name says test; pytest is not to collect it.
    __test__: ClassVar[bool] = False

    id: Text
    status: Literal["pass", "fail", "error", "skip"]
    n: int = Field(gt=0)


class Seal(Document):
    """Binds a report to one verification: tests with drawn names and outcomes run among the others.

    The tests follow from the nonce (32 hexadecimal digits, drawn anew for each verification).
    """

    phase: Literal["pass_to_pass", "fail_to_pass"]
    nonce: str = Field(pattern=r"^[0-9a-f]{32}$")


class ReportFault(Closed):
    """Why a report is not believed, as far as it goes.

    `exit_status`: the runner ended otherwise than a whole session with a failing seal ends. `no_report`: it
    left none. `seal`: the seal's tests are not in the report as drawn. `unexpected_tests`: the report names
    tests that the suite does not have. `left_running`: processes of the tests outlived the session.
    """

    kind: Literal["exit_status", "left_running", "no_report", "seal", "unexpected_tests"]
    detail: Text


class TestReport(Document):
    """One normalised run of a test suite, without its seal. With a fault but the last, no test counts."""

    # The name says test; pytest is not to collect it.
    __test__: ClassVar[bool] = False

    runner: RunnerKind
    phase: Literal["pass_to_pass", "fail_to_pass"]
    compiled: bool
    compile_error: str | None = None
    timed_out: bool
    exit_code: int | None
    tests: tuple[TestStatus, ...]
    faults: tuple[ReportFault, ...] = ()
    restored: tuple[Text, ...] = ()

    @model_validator(mode="after")
    def _sorted_unique(self) -> Self:
        ids = [test.id for test in self.tests]
        if ids != sorted(set(ids)):
            raise ValueError("tests must be sorted by id and unique")
        if self.tests and any(fault.kind != "unexpected_tests" for fault in self.faults):
            raise ValueError("a report that is not believed holds no tests")
        return self


class Tally(Closed):
    """Outcome of a pinned set of tests; the three lists name every test that did not pass."""

    expected: int = Field(ge=0)
    passed: int = Field(ge=0)
    failed: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


class Verdict(Document):
    """The deterministic grade of a trial. `resolved` is derived and checked, never set freely."""

    task_id: Slug
    condition_id: Slug
    agent: Slug
    epoch: int = Field(gt=0)
    tree: GitId
    diff_sha256: Sha256
    injection_sha256: Sha256
    within_limits: bool
    compiled: bool
    fail_to_pass_capability: Tally
    fail_to_pass_memory: Tally
    pass_to_pass: Tally
    reports_ok: bool
    paths_ok: bool
    patterns_ok: bool
    violations: tuple[Violation, ...]
    resolved: bool
    failure_reason: FailureReason | None
    facts_delivered: tuple[Slug, ...]
    facts_missing: tuple[Slug, ...]
    diagnostic: bool

    @model_validator(mode="after")
    def _derived(self) -> Self:
        tallies = (self.fail_to_pass_capability, self.fail_to_pass_memory, self.pass_to_pass)
        if any(tally.expected == 0 for tally in tallies):
            raise ValueError("a verdict from an empty set of tests is impossible")
        complete = all(tally.passed == tally.expected for tally in tallies)
        holds = (
            self.compiled,
            self.reports_ok,
            self.paths_ok,
            self.patterns_ok,
            self.within_limits,
        )
        whole = complete and all(holds) and not self.misconduct
        if self.resolved != whole:
            raise ValueError(
                "resolved must equal: all tests pass, build, reports, paths, patterns and limits hold, no misconduct"
            )
        if self.resolved != (self.failure_reason is None):
            raise ValueError("failure_reason is given exactly for an unresolved trial")
        return self

    @property
    def misconduct(self) -> bool:
        """Whether the agent did what no agent may; such a trial is failed, whatever its tests say."""
        return any(violation.rule == "misconduct" for violation in self.violations)

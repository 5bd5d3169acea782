"""A task as three views that never mix: History (memory systems), Brief (agents), Key (graders).

`Rehearsal` is a fourth, for the scripted agents alone: it holds the reference patch and would give the
answer away anywhere else. Handing one view to the consumer of another is a type error.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from orchestrator.model.base import Closed, Day, Document, Sha256, Slug, Text, UtcTime
from orchestrator.model.chronology import check_one_form, check_order, check_start, check_unique
from orchestrator.model.paths import PathPattern, RelativePath, RelativePathOrHere


class Category(StrEnum):
    """The eight ways in which remembered project knowledge can matter."""

    PRIOR_DECISION_DEPENDENCY = "prior_decision_dependency"
    PRIOR_BUG_ROOT_CAUSE = "prior_bug_root_cause"
    STALE_MEMORY_AVOIDANCE = "stale_memory_avoidance"
    NEGATIVE_CONSTRAINTS = "negative_constraints"
    WORKSTREAM_CONTINUITY = "workstream_continuity"
    MULTI_HOP_PROJECT_CONTEXT = "multi_hop_project_context"
    USER_CONTEXT_RELEVANCE = "user_context_relevance"
    CONFLICT_AMBIGUITY_HANDLING = "conflict_ambiguity_handling"


def _compiles(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from error
    return pattern


Pattern = Annotated[str, StringConstraints(min_length=1, max_length=500), AfterValidator(_compiles)]


RunnerKind = Literal["pytest", "node-test", "vitest", "mocha", "tape", "go-test", "cargo"]


class Runner(Closed):
    """How the task's test suite is run; every command is made by the grader, none by the task."""

    kind: RunnerKind
    source_roots: tuple[RelativePathOrHere, ...] = Field(min_length=1)
    test_paths: tuple[RelativePathOrHere, ...] = Field(min_length=1)
    timeout_s: int = Field(gt=0, le=3600)


RUNNERS_OF: dict[str, tuple[RunnerKind, ...]] = {
    "python": ("pytest",),
    "javascript": ("node-test", "vitest", "mocha", "tape"),
    "typescript": ("node-test", "vitest"),
    "go": ("go-test",),
    "rust": ("cargo",),
}


class TaskCard(Document):
    """What a task is, without prompt, history or answer."""

    id: Slug
    title: Text
    category: Category
    suite: Literal["coding-v1"]
    smoke: bool
    created_on: Day
    calibration: Literal["unmeasured", "measured"]
    source: Slug
    language: Literal["python", "javascript", "typescript", "go", "rust"]
    runner: Runner

    @model_validator(mode="after")
    def _runner_fits_language(self) -> Self:
        if self.runner.kind not in RUNNERS_OF[self.language]:
            raise ValueError(f"runner {self.runner.kind} is not one of language {self.language}")
        return self


class Limits(Closed):
    """Limits of one trial, equal in every arm. `work_bytes` counts against `memory_bytes` (tmpfs)."""

    wall_s: int = Field(gt=0, le=86_400)
    cpus_milli: int = Field(ge=100, le=64_000)
    memory_bytes: int = Field(ge=64 * 1024**2)
    pids: int = Field(ge=16, le=32_768)
    work_bytes: int = Field(ge=1024**2)
    work_inodes: int = Field(ge=64)
    output_bytes: int = Field(ge=1024)
    diff_bytes: int = Field(ge=1024)

    @model_validator(mode="after")
    def _work_fits_memory(self) -> Self:
        if self.work_bytes * 2 > self.memory_bytes:
            raise ValueError(
                "work_bytes must be at most half of memory_bytes: the work area is memory"
            )
        return self


class Brief(Document):
    """What the agent sees and is allowed to touch."""

    task_id: Slug
    prompt: Text
    allowed_paths: tuple[PathPattern, ...] = Field(min_length=1)
    forbidden_paths: tuple[PathPattern, ...] = ()
    limits: Limits


class ToolCall(Closed):
    """A tool call of the past; its output is the event's text."""

    name: Text
    input: str
    exit_code: int | None = None


class Event(Closed):
    """One raw event of a past episode."""

    event_id: Slug
    at: UtcTime
    role: Literal["user", "assistant", "tool"]
    text: str
    tool: ToolCall | None = None

    @model_validator(mode="after")
    def _tool_events_name_their_tool(self) -> Self:
        if (self.role == "tool") != (self.tool is not None):
            raise ValueError("tool is given for role tool and for no other role")
        return self


class Episode(Closed):
    """One past working session, in order."""

    episode_id: Slug
    started_at: UtcTime
    events: tuple[Event, ...] = Field(min_length=1)


class History(Document):
    """Raw history: all that a memory system may see. There is no field for facts, tests or prompt."""

    task_id: Slug
    episodes: tuple[Episode, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _ordered_and_unique(self) -> Self:
        check_sessions(
            [(episode.episode_id, episode.started_at, episode.events) for episode in self.episodes],
            "episode",
        )
        return self


def check_sessions(
    sessions: Sequence[tuple[str, str, tuple[Event, ...]]], what: Literal["episode", "session"]
) -> None:
    """Refuses sessions that cannot have been, one after the other: each with its id, start and events.

    Raises:
        ValueError: an id occurs twice, times are of unlike forms, out of order or a start is after its events.
    """
    events = [event for _, _, given in sessions for event in given]
    starts = [(f"{what} {name}", started_at) for name, started_at, _ in sessions]
    happened = [(f"event {event.event_id}", event.at) for event in events]
    check_unique((event.event_id for event in events), "event")
    check_unique((name for name, _, _ in sessions), what)
    check_one_form([*starts, *happened])
    check_order(happened, "events")
    check_order(starts, f"{what}s")
    for (named, started_at), (_, _, given) in zip(starts, sessions, strict=True):
        check_start(named, started_at, (f"event {given[0].event_id}", given[0].at))


class HiddenFile(Closed):
    """A test file that only the grader ever holds."""

    path: RelativePath
    text: Text
    sha256: Sha256


class FailToPass(Closed):
    """A hidden test. `capability`: passes for anyone who did the job; `memory`: needs the fact.

    `values`: what the code under test must give, in order, where the key's boundary is `values`.
    """

    id: Text
    group: Literal["capability", "memory"]
    values: tuple[str, ...] = ()


class PassToPass(Closed):
    """A test of the base suite that passes before, and how often its id occurs."""

    id: Text
    n: int = Field(default=1, gt=0)


class PatchPattern(Closed):
    """A regular expression over the added lines of the diff."""

    id: Slug
    pattern: Pattern
    why: Text


class GoldFact(Closed):
    """What must be remembered, with the grader's own matchers (all must match)."""

    id: Slug
    kind: Literal["coined", "contrarian", "selective"]
    statement: Text
    supporting_event_ids: tuple[Slug, ...] = Field(min_length=1)
    matchers: tuple[Pattern, ...] = Field(min_length=1)


class StaleFact(Closed):
    """A value that was true once and has been superseded."""

    id: Slug
    statement: Text
    event_ids: tuple[Slug, ...] = Field(min_length=1)
    matchers: tuple[Pattern, ...] = Field(min_length=1)


class HiddenPath(Closed):
    """Where a hidden test file goes in the checkout."""

    path: RelativePath


class KeyCard(Document):
    """The key as it lies on disk, without the bytes of the hidden files.

    `boundary`: with `process`, the hidden tests import the code under test from another process, which can
    neither read them nor touch their report; with `values`, they share one, but hand over what the code gave,
    and the grader alone knows what is right; with `in_process` they share one and decide there, and a hostile
    candidate could forge the outcome (docs/threat-model.md).
    """

    task_id: Slug
    hidden_files: tuple[HiddenPath, ...] = Field(min_length=1)
    boundary: Literal["process", "values", "in_process"] = "process"
    fail_to_pass: tuple[FailToPass, ...] = Field(min_length=1)
    required_patch_patterns: tuple[PatchPattern, ...] = ()
    forbidden_patch_patterns: tuple[PatchPattern, ...] = ()
    gold_facts: tuple[GoldFact, ...] = Field(min_length=1)
    stale_facts: tuple[StaleFact, ...] = ()
    relevant_files: tuple[RelativePath, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _unique(self) -> Self:
        ids = [test.id for test in self.fail_to_pass]
        if len(set(ids)) != len(ids):
            raise ValueError("fail_to_pass ids must be unique")
        return self

    @model_validator(mode="after")
    def _values_fit_boundary(self) -> Self:
        apart = self.boundary == "values"
        for test in self.fail_to_pass:
            if apart != bool(test.values):
                raise ValueError(
                    f"{test.id}: values are given for boundary values and for no other"
                )
        labels = {test.id.rpartition("::")[2].strip() for test in self.fail_to_pass}
        if apart and len(labels) != len(self.fail_to_pass):
            raise ValueError("with boundary values, what follows :: in the ids must be unique")
        return self


class PassToPassList(Document):
    """The pinned base suite: tests that must pass, and ids of others that a whole run reports too.

    `apart`: ids of those that pass across the process boundary too and must pass there as well, where no
    candidate code can reach their outcome.
    """

    task_id: Slug
    pass_to_pass: tuple[PassToPass, ...] = Field(min_length=1)
    also_reported: tuple[Text, ...] = ()
    apart: tuple[Text, ...] = ()

    @model_validator(mode="after")
    def _apart_of_the_suite(self) -> Self:
        strange = set(self.apart) - {test.id for test in self.pass_to_pass}
        if strange or len(set(self.apart)) != len(self.apart):
            raise ValueError("apart must name tests of pass_to_pass, each once")
        return self


class Key(Document):
    """The answer key in memory. Graders only."""

    task_id: Slug
    card: KeyCard
    hidden_files: tuple[HiddenFile, ...] = Field(min_length=1)
    pass_to_pass: tuple[PassToPass, ...] = Field(min_length=1)
    also_reported: tuple[Text, ...] = ()
    apart: tuple[Text, ...] = ()


class FollowerFact(Closed):
    """A fact as the follower recognises it: one alternative whose substrings all occur."""

    id: Slug
    any_of: tuple[tuple[Text, ...], ...] = Field(min_length=1)


class RehearsalCard(Document):
    """The follower's paraphrase set, written apart from the key's matchers."""

    task_id: Slug
    facts: tuple[FollowerFact, ...] = Field(min_length=1)


class Rehearsal(Document):
    """What the scripted agents need. Holds the answer; reaches a container only at `act`.

    A patch of a task in the making may be empty; such a task does not validate.
    """

    task_id: Slug
    facts: tuple[FollowerFact, ...] = Field(min_length=1)
    reference_patch: str
    natural_patch: str
    overeager_patch: str


class TaskDigests(Closed):
    """Digests of a task's parts; what a plan pins."""

    id: Slug
    card_sha256: Sha256
    source_sha256: Sha256
    brief_sha256: Sha256
    history_sha256: Sha256
    key_sha256: Sha256
    rehearsal_sha256: Sha256

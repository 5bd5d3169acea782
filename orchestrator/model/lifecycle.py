"""What crosses the port of a memory system, step by step: its description, sessions in, reports out.

Pure documents. A `Session` has no field for facts, tasks, tests or files: what is not in the raw history
cannot be handed to a memory system. Every answer is bounded, closed and hashed over RFC 8785 bytes.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from orchestrator.model.base import Closed, Document, Sha256, Slug, Text, UtcTime
from orchestrator.model.paths import RelativePath
from orchestrator.model.task import Event, check_sessions

MAX_K = 1000
"""The most items that one retrieval may return."""

Said = Annotated[str, StringConstraints(min_length=1, max_length=2000)]
"""A sentence for people; bounded, because foreign programs write it."""


class Step(StrEnum):
    """The steps of a memory system's life, in order. `close` ends it, whatever happened."""

    DESCRIBE = "describe"
    OPEN = "open"
    INGEST = "ingest"
    SETTLE = "settle"
    FREEZE = "freeze"
    RETRIEVE = "retrieve"
    COMPILE = "compile"
    CLOSE = "close"


def follows(last: Step | None, step: Step) -> bool:
    """Whether a step may come after another: the next in order, or the close, once."""
    order = tuple(Step)
    if last is None:
        return step is Step.DESCRIBE
    if last is Step.CLOSE:
        return False
    return step is Step.CLOSE or order.index(step) == order.index(last) + 1


class Capabilities(Closed):
    """What a system can do by its own account; a gap is said here and never papered over."""

    timestamps: bool
    update: bool
    delete: bool
    scopes: bool
    as_of: bool = False
    vectors: bool = False
    mcp: bool = False
    hooks: bool = False


class Observed(StrEnum):
    """A part of the path that a system may show or hide."""

    CAPTURE = "capture"
    EXTRACTION = "extraction"
    STORE = "store"
    RETRIEVAL = "retrieval"


Information = Literal["none", "raw", "curated", "gold"]
DESCRIPTION = "description"
"""The name of a description among the artifacts of stage `remember`."""


class Description(Document):
    """Who a memory system is. `shows` names the parts that it reports; what it hides is opaque.

    `information`: what it learns from. `raw`: sessions alone. `curated`: a file that people made from them, or text as such; `none`: nothing, so that its store, if its arm serves one, holds no memory. Both are of built-in systems.
    `gold`: facts of the answer key, through a door of its own; such an arm never bears a claim.
    """

    adapter: Slug
    version: Said
    capabilities: Capabilities
    shows: tuple[Observed, ...]
    information: Information
    extractor: Said | None = None
    degraded: tuple[Said, ...] = ()

    @property
    def stores(self) -> bool:
        """Whether anything may ever be in its store."""
        return self.information != "none"


class Session(Document):
    """One past working session as a memory system gets it: raw events, chronological, and nothing else."""

    session_id: Slug
    scope: Slug
    started_at: UtcTime
    events: tuple[Event, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _ordered_and_unique(self) -> Self:
        check_sessions([(self.session_id, self.started_at, self.events)], "session")
        return self


class EventCapture(Closed):
    """What became of one event. A dropped one has a reason; `redactions` counts secrets that were taken out.

    `cut_characters`: how many characters of the end of a captured event were not kept, counted in the text that
    capture keeps (Unicode code points, secrets taken out); 0 for one that was kept to its end.
    """

    event_id: Slug
    outcome: Literal["captured", "dropped"]
    reason: Said | None = None
    redactions: int = Field(default=0, ge=0)
    cut_characters: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _a_drop_has_a_reason(self) -> Self:
        if (self.outcome == "dropped") != (self.reason is not None):
            raise ValueError("a reason is given for a dropped event and for no other")
        if self.outcome == "dropped" and self.cut_characters:
            raise ValueError("cut_characters is given for a captured event and for no other")
        return self


class CaptureReport(Document):
    """The answer to one `ingest`: every event of the session, in its order, exactly once."""

    session_id: Slug
    events: tuple[EventCapture, ...]


class CaptureReports(Document):
    """The answers to all sessions of one history, in order."""

    reports: tuple[CaptureReport, ...]


MemoryKind = Literal[
    "decision",
    "veto",
    "constraint",
    "root_cause",
    "preference",
    "workstream",
    "fact",
    "event",
    "entry",
]
"""`event` is a raw event kept as it is, `entry` a piece of a file that people keep."""


class Candidate(Closed):
    """What extraction proposes to remember, on which evidence, and what the policy made of it by which rule."""

    candidate_id: Slug
    kind: MemoryKind
    text: Text
    scope: Slug
    evidence_event_ids: tuple[Slug, ...]
    decision: Literal["promote", "hold", "reject"]
    rule: Slug
    memory_id: Slug | None = None
    confidence_milli: int | None = Field(default=None, ge=0, le=1000)

    @model_validator(mode="after")
    def _a_promoted_one_is_a_memory(self) -> Self:
        if (self.decision == "promote") != (self.memory_id is not None):
            raise ValueError("memory_id is given for a promoted candidate and for no other")
        return self


class ExtractionTask(Closed):
    """One unit of extraction and how it ended. Tokens and model are null where no model was asked."""

    task_id: Slug
    session_id: Slug | None
    state: Literal["done", "failed"]
    attempts: int = Field(ge=1)
    prompt_sha256: Sha256 | None = None
    model: Said | None = None
    tokens: int | None = Field(default=None, ge=0)
    error: Said | None = None


class ReviewUse(Closed):
    """A person's log of answers that a system carried out: how many, how many are open, and their time.

    `seconds_spent` are whole seconds, each answer's rounded up.
    """

    log_sha256: Sha256
    resolved: int = Field(ge=0)
    open: int = Field(ge=0)
    seconds_spent: int = Field(ge=0)


class ExtractionReport(Document):
    """The answer to `settle`: all queues are drained, and this is what came of them.

    `review` names the log whose answers were carried out; null where the arm has none.
    """

    extractor: Said | None
    tasks: tuple[ExtractionTask, ...] = ()
    candidates: tuple[Candidate, ...] = ()
    review: ReviewUse | None = None

    @model_validator(mode="after")
    def _unique(self) -> Self:
        ids = [candidate.candidate_id for candidate in self.candidates]
        if len(set(ids)) != len(ids):
            raise ValueError("candidate ids must be unique")
        return self


class StoredMemory(Closed):
    """One memory of a store, at two times: when it held (`valid_*`) and when it was written (`recorded_at`)."""

    memory_id: Slug
    kind: MemoryKind
    text: Text
    scope: Slug
    status: Literal["active", "superseded", "held"]
    evidence_event_ids: tuple[Slug, ...] = ()
    valid_from: UtcTime | None = None
    valid_to: UtcTime | None = None
    recorded_at: UtcTime | None = None
    superseded_by: Slug | None = None


class StoreLink(Closed):
    """A link between two memories."""

    kind: Literal["contradicts", "refines", "supersedes", "inherits_veto"]
    from_id: Slug
    to_id: Slug


class StoreDump(Document):
    """A whole store in one form. Memories and links are sorted by id, so equal stores are equal bytes."""

    memories: tuple[StoredMemory, ...]
    links: tuple[StoreLink, ...] = ()

    @model_validator(mode="after")
    def _sorted_unique(self) -> Self:
        ids = [memory.memory_id for memory in self.memories]
        if ids != sorted(set(ids)):
            raise ValueError("memories must be sorted by memory_id and unique")
        links = [(link.kind, link.from_id, link.to_id) for link in self.links]
        if links != sorted(set(links)):
            raise ValueError("links must be sorted and unique")
        return self


class Snapshot(Document):
    """The answer to `freeze`: from here on the store does not change. The harness checks every figure."""

    dump_sha256: Sha256
    memories: int = Field(ge=0)


class FrozenStore(Document):
    """A frozen store as the harness found it: the adapter's dump and the archive of its work folder."""

    dump_sha256: Sha256
    archive_sha256: Sha256
    archive_bytes: int = Field(ge=0)
    memories: int = Field(ge=0)
    tokens: int = Field(ge=0)


class Query(Document):
    """What every memory system is asked, in the same bytes: the prompt, and files only if all arms get them."""

    prompt: Text
    scope: Slug
    k: int = Field(gt=0, le=MAX_K)
    files_in_scope: tuple[RelativePath, ...] | None = None


class ChannelRank(Closed):
    """The place of an item in one channel of a search, counted from 1."""

    channel: Slug
    rank: int = Field(gt=0)


class RankedItem(Closed):
    """One item in rank order, with its place in every channel that found it."""

    memory_id: Slug
    text: Text
    source_event_ids: tuple[Slug, ...] = ()
    score_micros: int | None = None
    channels: tuple[ChannelRank, ...] = ()


class Ranked(Document):
    """The answer to `retrieve`. `considered` counts what the search looked at before it cut to k."""

    query_sha256: Sha256
    considered: int = Field(ge=0)
    items: tuple[RankedItem, ...]
    degraded: tuple[Said, ...] = ()

    @model_validator(mode="after")
    def _unique(self) -> Self:
        ids = [item.memory_id for item in self.items]
        if len(set(ids)) != len(ids):
            raise ValueError("items must be unique")
        if self.considered < len(ids):
            raise ValueError("considered must be at least the number of items")
        return self


DropReason = Literal["over_budget", "duplicate", "duplicate_cap", "superseded", "not_selected"]


class IncludedItem(Closed):
    """An item that reached the agent."""

    item_id: Slug
    tokens: int = Field(ge=0)


class DroppedItem(Closed):
    """An item that did not, and why."""

    item_id: Slug
    tokens: int = Field(ge=0)
    reason: DropReason


class CompiledContext(Document):
    """The answer to `compile`: the text under the budget, what is in it and what was left out.

    `tokens` counts all that it adds to a prompt: the text and the frame around it.
    """

    text: str
    text_sha256: Sha256
    unit: Literal["o200k_base"]
    tokens: int = Field(ge=0)
    included: tuple[IncludedItem, ...]
    dropped: tuple[DroppedItem, ...]
    degraded: tuple[Said, ...] = ()


class ContractFailure(Closed):
    """How a memory system broke its contract: at which step, in which way, by which rule."""

    step: Step
    kind: Literal["crashed", "timed_out", "flooded", "answer_invalid", "contract_broken"]
    rule: Slug
    detail: Said


class StepRecord(Closed):
    """One step as it was taken. `answer_sha256` is null for a step that failed or answers nothing."""

    step: Step
    input_sha256: Sha256
    answer_sha256: Sha256 | None
    failure: ContractFailure | None = None


class GoldFacts(Document):
    """Facts of the answer key for arms that never bear a claim; the only way in is `pipeline.gold`."""

    facts: tuple[GoldNote, ...]
    superseded: tuple[GoldNote, ...] = ()


class GoldNote(Closed):
    """One fact and the events that it rests on."""

    note_id: Slug
    statement: Text
    event_ids: tuple[Slug, ...]


GoldFacts.model_rebuild()

"""One form for what an agent said and did, whatever its own event format is. Metrics of the reader side.

Texts are bounded; paths are as the agent named them. Holds no secret that the output did not hold.
Reads and writes nothing.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from orchestrator.model.base import Closed, Document, Slug, Text
from orchestrator.model.usage import Usage

EventKind = Literal["message", "tool_call", "tool_output", "error", "note"]
TranscriptFormat = Literal["claude-stream-json", "codex-json", "mini-trajectory", "lines", "none"]


class TranscriptEvent(Closed):
    """One thing that an agent said, did or was told. `at_ms` counts from its start where that is known."""

    seq: int = Field(ge=0)
    kind: EventKind
    turn: int = Field(ge=0)
    name: str | None = None
    call_id: str | None = None
    text: str = ""
    text_cut: bool = False
    failed: bool | None = None
    exit_code: int | None = None
    at_ms: int | None = None
    paths_read: tuple[str, ...] = ()
    paths_written: tuple[str, ...] = ()


class Transcript(Document):
    """An agent's run in the common form. `broken` counts lines that were no event of the format."""

    agent: Slug
    format: TranscriptFormat
    version: str | None
    model: str | None
    events: tuple[TranscriptEvent, ...]
    events_cut: bool
    broken: int = Field(ge=0)
    turns: int = Field(ge=0)
    stop_reason: str | None
    exit_code: int | None
    usage: Usage | None


class ReaderMetrics(Document):
    """What the reader of memory did with it. Nulls: there was no such moment, or nothing tells it."""

    turns: int = Field(ge=0)
    tool_calls: int = Field(ge=0)
    events_to_first_relevant_file: int | None
    time_to_first_relevant_file_ms: int | None
    first_relevant_file: Text | None
    repeated_failed_action_count: int = Field(ge=0)
    cited_in_messages: tuple[Slug, ...]
    cited_in_diff: tuple[Slug, ...]
    cited_unknown: tuple[Text, ...]

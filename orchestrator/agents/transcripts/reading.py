"""Which reader reads which agent's output, and what a transcript says about how memory was used. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from orchestrator.agents.chat import CHAT_AGENT
from orchestrator.agents.claude_code import CLAUDE_CODE
from orchestrator.agents.codex import CODEX
from orchestrator.agents.mini import MINI
from orchestrator.agents.own_usage import own_usage
from orchestrator.agents.transcripts.claude import read_claude
from orchestrator.agents.transcripts.codex import read_codex
from orchestrator.agents.transcripts.mini import read_lines, read_mini, read_nothing
from orchestrator.core.errors import DocumentError
from orchestrator.model.transcript import (
    ReaderMetrics,
    Transcript,
    TranscriptEvent,
    TranscriptFormat,
)

MAX_TRANSCRIPT_BYTES = 64 * 1024 * 1024
Reader = Callable[[str, bytes, int | None], Transcript]
READERS: dict[TranscriptFormat, Reader] = {
    "claude-stream-json": read_claude,
    "codex-json": read_codex,
    "lines": read_lines,
    "mini-trajectory": read_mini,
    "none": read_nothing,
}
FORMATS: dict[str, TranscriptFormat] = {
    CHAT_AGENT: "lines",
    CLAUDE_CODE: "claude-stream-json",
    CODEX: "codex-json",
    MINI: "mini-trajectory",
}
# As orchestrator.memory.compile renders it; an id is a Slug.
_CITED = re.compile(r"\[mem:([a-z0-9][a-z0-9._-]{0,79})\]")


def transcript_of(
    agent: str, output: bytes, exit_code: int | None, *, events: TranscriptFormat | None = None
) -> Transcript:
    """Returns the transcript of an agent's output, by the given format, its own, or line by line.

    Its usage is the agent's own figure as the report has it. An output whose transcript no document may
    hold is for people: what an agent prints fails no attempt.
    """
    try:
        read = READERS[events or FORMATS.get(agent, "lines")](agent, output, exit_code)
        own = own_usage(output)
        found = read.model_copy(update={"usage": own.usage if own else None})
        if len(found.canonical()) <= MAX_TRANSCRIPT_BYTES:
            return found
    except (DocumentError, ValueError):
        pass
    return read_nothing(agent, output, exit_code)


def metrics_of(
    transcript: Transcript, *, relevant: Iterable[str], injected: Iterable[str], added: str
) -> ReaderMetrics:
    """Returns the metrics of the reader's side.

    Args:
        transcript: the agent's run.
        relevant: the files that the task is about.
        injected: ids of the memory items that the agent was given.
        added: the lines that its diff adds.
    """
    wanted, known = set(relevant), set(injected)
    calls = [event for event in transcript.events if event.kind == "tool_call"]
    first, path = _first(calls, wanted)
    said = "\n".join(e.text for e in transcript.events if e.kind == "message")
    messages, diff = _CITED.findall(said), _CITED.findall(added)
    return ReaderMetrics(
        turns=transcript.turns,
        tool_calls=len(calls),
        events_to_first_relevant_file=first.seq if first else None,
        time_to_first_relevant_file_ms=first.at_ms if first else None,
        first_relevant_file=path,
        repeated_failed_action_count=_repeated_failures(transcript.events),
        cited_in_messages=tuple(sorted(known.intersection(messages))),
        cited_in_diff=tuple(sorted(known.intersection(diff))),
        cited_unknown=tuple(sorted({*messages, *diff} - known)),
    )


def _first(
    calls: list[TranscriptEvent], wanted: set[str]
) -> tuple[TranscriptEvent | None, str | None]:
    for event in calls:
        for path in (*event.paths_read, *event.paths_written):
            if path in wanted:
                return event, path
    return None, None


def _repeated_failures(events: tuple[TranscriptEvent, ...]) -> int:
    """Counts actions that had failed before and were tried again, word for word, and failed again."""
    acted: dict[str | None, tuple[str | None, str]] = {}
    failed: set[tuple[str | None, str]] = set()
    last: tuple[str | None, str] | None = None
    repeated = 0
    for event in events:
        if event.kind == "tool_call":
            last = (event.name, event.text)
            acted[event.call_id] = last
        elif event.kind == "tool_output" and event.failed:
            action = acted.get(event.call_id) if event.call_id else last
            if action is not None:
                repeated += action in failed
                failed.add(action)
    return repeated

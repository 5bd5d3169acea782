"""Reads the stream-json events of Claude Code, by type and never by place.

Format: one JSON object a line: `system`, `assistant` and `user` messages, a final `result`. Pure.
"""

from __future__ import annotations

import json

from orchestrator.agents.transcripts.building import (
    Collected,
    as_list,
    as_object,
    as_text,
    json_lines,
    paths_of_command,
)
from orchestrator.model.transcript import Transcript

_WRITING_TOOLS = frozenset({"Edit", "MultiEdit", "NotebookEdit", "Write"})


def read_claude(agent: str, output: bytes, exit_code: int | None) -> Transcript:
    """Returns the transcript of an output."""
    events, broken = json_lines(output)
    collected = Collected()
    version = model = stop = None
    last_message = ""
    for event in events:
        kind = event.get("type")
        if kind == "system" and event.get("subtype") == "init":
            version = as_text(event.get("claude_code_version")) or as_text(event.get("version"))
            model = as_text(event.get("model")) or None
            for server in map(as_object, as_list(event.get("mcp_servers"))):
                status = as_text(server.get("status"))
                said = f"server {as_text(server.get('name'))}: {status}"
                collected.add("note", said, failed=status != "connected")
        elif kind == "assistant":
            message = as_object(event.get("message"))
            # One answer of the model may come in several events, which share its id.
            if as_text(message.get("id")) != last_message or not last_message:
                collected.turn += 1
            last_message = as_text(message.get("id"))
            _assistant(message, collected)
        elif kind == "user":
            _results(as_object(event.get("message")), collected)
        elif kind == "result":
            stop = as_text(event.get("terminal_reason")) or as_text(event.get("subtype")) or None
            if event.get("is_error") is True:
                collected.add("error", as_text(event.get("result")), failed=True)
    return collected.transcript(
        agent,
        "claude-stream-json",
        version=version or None,
        model=model,
        broken=broken,
        stop_reason=stop,
        exit_code=exit_code,
    )


def _assistant(message: dict[str, object], collected: Collected) -> None:
    for block in map(as_object, as_list(message.get("content"))):
        if block.get("type") == "text":
            collected.add("message", as_text(block.get("text")))
        elif block.get("type") == "tool_use":
            name = as_text(block.get("name"))
            given = as_object(block.get("input"))
            read, written = paths_of_command(as_text(given.get("command")))
            path = as_text(given.get("file_path")) or as_text(given.get("path"))
            if path:
                own = (path.removeprefix("/work/"),)
                read, written = (*read, *own), own if name in _WRITING_TOOLS else written
            collected.add(
                "tool_call",
                json.dumps(given, ensure_ascii=False),
                name=name,
                call_id=as_text(block.get("id")),
                read=read,
                written=written,
            )


def _results(message: dict[str, object], collected: Collected) -> None:
    for block in map(as_object, as_list(message.get("content"))):
        if block.get("type") == "tool_result":
            said = block.get("content")
            parts = [as_text(as_object(part).get("text")) for part in as_list(said)]
            collected.add(
                "tool_output",
                as_text(said) or "\n".join(parts),
                call_id=as_text(block.get("tool_use_id")),
                failed=block.get("is_error") is True,
            )

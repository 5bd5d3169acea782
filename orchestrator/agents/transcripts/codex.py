"""Reads the events of `codex exec --json`, by type and never by place.

Format: one JSON object a line: `thread.started`, `turn.started`, `item.started` and `item.completed`,
`turn.completed`, `turn.failed`, `error`. Pure.
"""

from __future__ import annotations

import json

from orchestrator.agents.transcripts.building import (
    Collected,
    as_exit_code,
    as_list,
    as_object,
    as_text,
    json_lines,
    paths_of_command,
    words_of,
)
from orchestrator.model.transcript import Transcript


def read_codex(agent: str, output: bytes, exit_code: int | None) -> Transcript:
    """Returns the transcript of an output."""
    events, broken = json_lines(output)
    collected = Collected()
    stop: str | None = None
    for event in events:
        kind = as_text(event.get("type"))
        if kind == "item.completed":
            _item(as_object(event.get("item")), collected)
        elif kind == "turn.completed":
            stop = "completed"
        elif kind in {"turn.failed", "error"}:
            stop = "failed" if kind == "turn.failed" else stop
            said = as_object(event.get("error")) or event
            collected.add("error", as_text(said.get("message")), failed=True)
    return collected.transcript(
        agent, "codex-json", broken=broken, stop_reason=stop, exit_code=exit_code
    )


def _item(item: dict[str, object], collected: Collected) -> None:
    kind, name = as_text(item.get("type")), as_text(item.get("id"))
    if kind == "agent_message":
        collected.turn += 1
        collected.add("message", as_text(item.get("text")))
    elif kind == "command_execution":
        command = _inner(as_text(item.get("command")))
        read, written = paths_of_command(command)
        collected.add("tool_call", command, name="exec_command", call_id=name, read=read, written=written)  # fmt: skip
        code = as_exit_code(item.get("exit_code"))
        collected.add(
            "tool_output",
            as_text(item.get("aggregated_output")),
            call_id=name,
            failed=None if code is None else code != 0,
            exit_code=code,
        )
    elif kind == "file_change":
        changes = [as_object(change) for change in as_list(item.get("changes"))]
        paths = tuple(as_text(c.get("path")).removeprefix("/work/") for c in changes)
        collected.add("tool_call", json.dumps(changes), name="apply_patch", call_id=name, read=paths, written=paths)  # fmt: skip
    elif kind == "mcp_tool_call":
        tool = f"{as_text(item.get('server'))}.{as_text(item.get('tool'))}"
        collected.add("tool_call", json.dumps(item.get("arguments")), name=tool, call_id=name)
        failed = item.get("status") == "failed"
        collected.add("tool_output", json.dumps(item.get("result")), call_id=name, failed=failed)
    elif kind == "error":
        collected.add("error", as_text(item.get("message")), failed=True)


def _inner(command: str) -> str:
    """Returns the command itself, without the shell that the agent wraps around it."""
    words = words_of(command)
    wrapped = len(words) == 3 and words[1] in {"-c", "-lc"} and words[0].endswith("sh")
    return words[2] if wrapped else command

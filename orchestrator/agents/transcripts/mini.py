"""Reads the trajectory of mini-swe-agent, which its driver prints behind a mark; and plain lines of our own.

Format: `messages` in the words of Chat Completions, `info` with exit status and version. Pure.
"""

from __future__ import annotations

import re

from orchestrator.agents.mini import MARK
from orchestrator.agents.transcripts.building import (
    Collected,
    as_exit_code,
    as_list,
    as_object,
    as_text,
    json_lines,
    paths_of_command,
)
from orchestrator.core.errors import DocumentError
from orchestrator.core.strictjson import parse_json
from orchestrator.model.transcript import Transcript

MAX_TRAJECTORY_BYTES = 64 * 1024 * 1024
_CODE = re.compile(r"<returncode>(-?\d+)</returncode>")
_EXIT = re.compile(r"exit (\d+)\n")


def read_mini(agent: str, output: bytes, exit_code: int | None) -> Transcript:
    """Returns the transcript of an output; without a trajectory it has no events."""
    _, found, record = output.rpartition(f"\n{MARK}\n".encode())
    trajectory: dict[str, object] = {}
    if found:
        try:
            parsed = parse_json(record, where="trajectory", max_bytes=MAX_TRAJECTORY_BYTES)
            trajectory = as_object(parsed)
        except DocumentError:
            trajectory = {}
    collected = Collected()
    for message in map(as_object, as_list(trajectory.get("messages"))):
        _message(message, collected)
    info = as_object(trajectory.get("info"))
    return collected.transcript(
        agent,
        "mini-trajectory",
        version=as_text(info.get("mini_version")) or None,
        broken=0 if trajectory else 1,
        stop_reason=as_text(info.get("exit_status")) or None,
        exit_code=exit_code,
    )


def _message(message: dict[str, object], collected: Collected) -> None:
    role, said = message.get("role"), as_text(message.get("content"))
    if role == "assistant":
        collected.turn += 1
        collected.add("message", said)
        for call in map(as_object, as_list(message.get("tool_calls"))):
            function = as_object(call.get("function"))
            command = _command(as_text(function.get("arguments")))
            read, written = paths_of_command(command)
            name, number = as_text(function.get("name")), as_text(call.get("id"))
            collected.add("tool_call", command, name=name, call_id=number, read=read, written=written)  # fmt: skip
    elif role == "tool":
        extra = as_object(message.get("extra"))
        seen = _CODE.search(said)
        code = as_exit_code(extra.get("returncode"))
        code = as_exit_code(seen[1]) if code is None and seen else code
        number = as_text(message.get("tool_call_id"))
        failed = None if code is None else code != 0
        collected.add("tool_output", said, call_id=number, failed=failed, exit_code=code)


def _command(arguments: str) -> str:
    try:
        given = parse_json(arguments.encode(), where="arguments")
    except DocumentError:
        return arguments
    return as_text(as_object(given).get("command")) or arguments


def read_lines(agent: str, output: bytes, exit_code: int | None) -> Transcript:
    """Returns the transcript of an agent that prints `{"kind": ..., "text": ...}` lines, as ours do."""
    events, broken = json_lines(output)
    collected = Collected()
    for event in events:
        kind, text = event.get("kind"), as_text(event.get("text"))
        if kind == "tool_call":
            read, written = paths_of_command(text)
            collected.add("tool_call", text, name="bash", read=read, written=written)
        elif kind == "tool_output":
            seen = _EXIT.match(text)
            code = as_exit_code(seen[1]) if seen else None
            failed = None if code is None else code != 0
            collected.add("tool_output", text, failed=failed, exit_code=code)
        else:
            collected.turn += 1
            collected.add("message", text)
    return collected.transcript(agent, "lines", broken=broken, exit_code=exit_code)


def read_nothing(agent: str, output: bytes, exit_code: int | None) -> Transcript:
    """Returns the empty transcript of an agent whose output is for people."""
    return read_lines(agent, b"", exit_code).model_copy(
        update={"format": "none", "broken": len(output.splitlines())}
    )

"""Promise: what an agent's client itself states of its tool server before its first call is taken at its word."""

from __future__ import annotations

import json
from typing import Any

import pytest

from orchestrator.agents.claude_code import CLAUDE_CODE
from orchestrator.agents.codex import CODEX
from orchestrator.agents.mini import MINI
from orchestrator.agents.servers import FAILED, REQUIRED, stated_of
from orchestrator.model.proof import CONNECTED, MAX_NAME_CHARS, UNSAID


def lines(*events: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(event, separators=(",", ":")).encode() + b"\n" for event in events)


def init(*servers: Any) -> dict[str, Any]:
    return {"type": "system", "subtype": "init", "mcp_servers": list(servers)}


ASSISTANT = {"type": "assistant", "message": {"content": []}}
OURS = {"name": "memory", "status": CONNECTED}


@pytest.mark.parametrize("status", [CONNECTED, "pending", FAILED])
def test_claude_code_states_the_status_of_each_server_in_its_first_event(status):
    output = lines({"type": "system", "subtype": "other"}, init({"name": "x", "status": "failed"}, {**OURS, "status": status}), ASSISTANT)  # fmt: skip
    assert stated_of(CLAUDE_CODE, b"warning\n" + output, "memory") == status


@pytest.mark.parametrize(
    "output",
    [
        b"",
        b"not an event\n",
        lines(init()),
        lines(init({**OURS, "name": "other"})),
        lines(init({"name": "memory"})),
        lines(init({"name": "memory", "status": 3})),
        lines(init(OURS, OURS)),
        lines({**init(), "mcp_servers": "memory"}),
        lines(ASSISTANT, init(OURS)),
    ],
)
def test_claude_code_that_says_nothing_of_the_server_before_its_first_turn_has_not_said_it(output):
    assert stated_of(CLAUDE_CODE, output, "memory") == UNSAID


def test_a_status_of_any_length_is_told_within_bounds():
    said = stated_of(CLAUDE_CODE, lines(init({**OURS, "status": "x" * 100_000})), "memory")
    assert said is not None
    assert len(said) <= 2 * MAX_NAME_CHARS


def test_codex_states_a_server_only_by_ending_over_it():
    error = {"type": "error", "message": f"{REQUIRED}: memory: handshake failed"}
    assert stated_of(CODEX, lines({"type": "thread.started"}, error), "memory") == FAILED
    item = {"type": "item.completed", "item": {"type": "agent_message", "text": REQUIRED}}
    assert stated_of(CODEX, lines({"type": "turn.started"}, item), "memory") is None


def test_an_agent_without_servers_states_none():
    assert stated_of(MINI, lines(init(OURS)), "memory") is None

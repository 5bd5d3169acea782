"""What an agent's own client states of its tool servers before it first asks its model. Pure.

Secondary evidence beside the server's account and the requests: a client may lie, but one that says itself that it
has not reached a server has not been given it. Claude Code lists its servers with a status in its first event
(`system`, `init`). Codex prints no event for a server; ours is `required`, so that it ends before the first call
with an error that names it, and goes on only if it was reached. mini-swe-agent takes no servers.
"""

from __future__ import annotations

from orchestrator.agents.claude_code import CLAUDE_CODE
from orchestrator.agents.codex import CODEX
from orchestrator.agents.transcripts.building import as_list, as_object, as_text, json_lines
from orchestrator.model.proof import UNSAID, short

REQUIRED = "required MCP servers failed to initialize"
FAILED = "failed"


def stated_of(agent: str, output: bytes, server: str) -> str | None:
    """Returns the status of a server as the agent's client states it.

    Args:
        agent: the agent's name.
        output: what it printed.
        server: the server's name in the agent's configuration.

    Returns:
        The client's own word, `unsaid` where such a client says nothing of the server before its first turn, and
        None for a client that states none.
    """
    if agent == CLAUDE_CODE:
        return _claude(output, server)
    if agent == CODEX:
        return FAILED if REQUIRED.encode() in _before_a_turn(output) else None
    return None


def _claude(output: bytes, server: str) -> str:
    for event in json_lines(output)[0]:
        if event.get("type") in {"assistant", "user", "result"}:
            break
        if event.get("type") == "system" and event.get("subtype") == "init":
            listed = [as_object(item) for item in as_list(event.get("mcp_servers"))]
            found = [as_text(item.get("status")) for item in listed if item.get("name") == server]
            return short(found[0]) or UNSAID if len(found) == 1 else UNSAID
    return UNSAID


def _before_a_turn(output: bytes) -> bytes:
    """Returns what was printed before the first item of a turn: later words may be a command's or the model's."""
    return output.partition(b'"type":"item.')[0]

"""How memory reaches an agent by a way of its own, beside the prompt that every agent takes. Pure.

A channel changes an agent's launch and nothing else of its profile: a file in the fresh HOME that the agent
reads by itself, or a tool server. The file's bytes come over standard input, before the prompt.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from orchestrator.agents.claude_code import CLAUDE_CODE
from orchestrator.agents.codex import CODEX
from orchestrator.model.condition import Delivery
from orchestrator.protocols import Launch

PREFIX: Delivery = "prompt_prefix"
SESSION_FILE = "/home/agent/.session-start/context.txt"
AGENTS_FILE = "/home/agent/.codex/AGENTS.md"
SERVER = "memory"
SOCKET = "/run/memtrial/memory.sock"
# What `head -c` does not read stays in the pipe for the agent.
_WRITE = 'mkdir -p "$(dirname "$2")" && head -c "$1" > "$2" && shift 2 && exec "$@"'
MODELS_FILE = "/home/agent/.codex/models.json"
# Codex hides a server's tools behind a search for tools where its catalogue says that the model can search. Its
# own catalogue, without that, puts them into the first request.
_EAGER = """mkdir -p "$(dirname "$1")" && "$2" debug models --bundled </dev/null |
python3 -I -c 'import json, sys
known = json.load(sys.stdin)
for model in known["models"]:
    model["supports_search_tool"] = False
json.dump(known, sys.stdout)' > "$1" && shift && exec "$@"
"""
# Standard input and output are the server's: copies lines between them and its socket, and ends with either.
BRIDGE = """import os, socket, sys, threading
server = socket.socket(socket.AF_UNIX)
server.connect(sys.argv[1])
def up():
    while data := os.read(0, 65536):
        server.sendall(data)
    server.shutdown(socket.SHUT_WR)
threading.Thread(target=up, daemon=True).start()
while data := server.recv(65536):
    os.write(1, data)
"""


def channels_of(agent: str) -> frozenset[Delivery]:
    """Returns the channels of an agent."""
    return frozenset(channel for name, channel in _CHANGES if name == agent) | {PREFIX}


def delivered(agent: str, launch: Launch, channel: Delivery, text: str) -> Launch:
    """Returns the launch with what a channel adds.

    Args:
        agent: the agent's name; it has the channel.
        launch: as every arm has it.
        channel: how memory comes in.
        text: exactly what the agent is to read by itself; nothing for tools or an arm that has nothing.
    """
    if channel == PREFIX:
        return launch
    return _CHANGES[agent, channel](launch, text)


def _from_file(launch: Launch, path: str, text: str) -> Launch:
    data = text.encode()
    argv = ("sh", "-c", _WRITE, "deliver", str(len(data)), path, *launch.argv)
    return Launch(argv, launch.environment, data + launch.stdin)


def _replaced(argv: tuple[str, ...], option: str, value: str) -> tuple[str, ...]:
    at = argv.index(option) + 1
    return (*argv[:at], value, *argv[at + 1 :])


def _claude_hook(launch: Launch, text: str) -> Launch:
    if not text:
        return launch
    hook = {"type": "command", "command": f"cat {SESSION_FILE}"}
    settings = json.dumps({"hooks": {"SessionStart": [{"hooks": [hook]}]}})
    argv = _replaced(launch.argv, "--settings", settings)
    return _from_file(Launch(argv, launch.environment, launch.stdin), SESSION_FILE, text)


def _codex_file(launch: Launch, text: str) -> Launch:
    return _from_file(launch, AGENTS_FILE, text) if text else launch


def _claude_tools(launch: Launch, _: str) -> Launch:
    server = {"type": "stdio", "command": "python3", "args": ["-I", "-B", "-c", BRIDGE, SOCKET]}
    config = json.dumps({"mcpServers": {SERVER: server}})
    return Launch((*launch.argv, "--mcp-config", config), launch.environment, launch.stdin)


def _codex_tools(launch: Launch, _: str) -> Launch:
    server = f"mcp_servers.{SERVER}"
    settings: tuple[tuple[str, object], ...] = (
        (f"{server}.command", "python3"),
        (f"{server}.args", ["-I", "-B", "-c", BRIDGE, SOCKET]),
        (f"{server}.required", True),
        ("model_catalog_json", MODELS_FILE),
    )
    options = tuple(part for key, v in settings for part in ("-c", f"{key}={json.dumps(v)}"))
    argv = ("sh", "-c", _EAGER, "eager", MODELS_FILE, *launch.argv[:-1], *options, launch.argv[-1])
    return Launch(argv, launch.environment, launch.stdin)


_CHANGES: dict[tuple[str, Delivery], Callable[[Launch, str], Launch]] = {
    (CLAUDE_CODE, "session_start_hook"): _claude_hook,
    (CLAUDE_CODE, "mcp"): _claude_tools,
    (CODEX, "agents_md"): _codex_file,
    (CODEX, "mcp"): _codex_tools,
}

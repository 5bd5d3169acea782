"""A small agent: sends the prompt to a Chat Completions model, runs the commands it asks for, until it is done.

Reads the prompt from standard input, address and token from its environment; edits the work area, writes
one JSON line for each thing it does. Standard library only. It knows no answer: the model does.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from typing import Any

MAX_TURNS = 40
MAX_OUTPUT_CHARS = 20_000
COMMAND_TIMEOUT_S = 600
TOOL = {
    "type": "function",
    "function": {
        "name": "bash",
        "description": "Runs a command in the repository and returns its output.",
        "parameters": {
            "type": "object",
            "properties": {"command": {"type": "string"}},
            "required": ["command"],
        },
    },
}


def say(kind: str, text: str) -> None:
    """Writes one transcript line."""
    print(json.dumps({"kind": kind, "text": text}), flush=True)


def complete(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Asks the model for its next message."""
    body = {
        "model": os.environ["MEMTRIAL_MODEL"],
        "messages": messages,
        "tools": [TOOL],
        "max_completion_tokens": 4096,
    }
    request = urllib.request.Request(  # noqa: S310 - the address is the driver's
        os.environ["OPENAI_BASE_URL"] + "/chat/completions",
        data=json.dumps(body).encode(),
        headers={
            "content-type": "application/json",
            "authorization": "Bearer " + os.environ["OPENAI_API_KEY"],
        },
    )
    # The address is loopback; no proxy may come between.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=600) as answer:
        message = json.load(answer)["choices"][0]["message"]
    if not isinstance(message, dict):
        raise TypeError("the model's message is not an object")
    return message


def run(arguments: str) -> str:
    """Runs a command of the model and returns what it printed, with its exit code."""
    command = json.loads(arguments)["command"]
    finished = subprocess.run(
        ["bash", "-c", command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=COMMAND_TIMEOUT_S,
        check=False,
    )
    text = finished.stdout.decode("utf-8", "replace")[-MAX_OUTPUT_CHARS:]
    return f"exit {finished.returncode}\n{text}"


def main() -> int:
    """Works until the model asks for nothing more; returns the exit code."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": sys.stdin.read()}]
    for _ in range(MAX_TURNS):
        try:
            message = complete(messages)
        except urllib.error.HTTPError as error:
            say("error", f"{error.code} {error.read().decode('utf-8', 'replace')[:2000]}")
            return 1
        messages.append(message)
        if message.get("content"):
            say("message", str(message["content"]))
        calls = message.get("tool_calls") or []
        if not calls:
            return 0
        for call in calls:
            output = run(call["function"]["arguments"])
            say("tool_call", output.split("\n", 1)[0])
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": output})
    say("error", f"no end after {MAX_TURNS} turns")
    return 1


if __name__ == "__main__":
    raise SystemExit(main())

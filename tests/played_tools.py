"""An agent that asks its memory as tools, without a container: a real tool server and the run's real gateway.

Speaks as Claude Code does: lists the server's tools, offers them with every call, and hands each answer on.
"""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from orchestrator.core.places import fixtures_root
from orchestrator.ledger.blobs import BlobStore
from orchestrator.ledger.chain import read_entries
from orchestrator.ledger.history import replay
from orchestrator.model.isolation import FileSeen
from orchestrator.model.plan import TaskPin
from orchestrator.model.record import Stage
from orchestrator.pipeline.options import PlanRequest
from orchestrator.pipeline.run import Run
from orchestrator.pipeline.toolserver import SOCKET_NAME
from orchestrator.pipeline.traffic import MARK, gateway_of
from orchestrator.protocols import ActOutcome, Launch, MemoryAdapter
from orchestrator.sources.loader import load_task
from tests.played_chat import SocketHTTP
from tests.recorded import PlayedSandbox, PlayedWorkspace, benches, make_plan, write_reports

TOOLS_ARM = "reference_mcp"
TOOLS = PlanRequest(
    agents=("claude-code",), tasks=("depotfeed-returns",), conditions=("no_memory", TOOLS_ARM)
)
Does = Literal["as told", "all", "nothing"]


@dataclass(frozen=True, slots=True)
class Client:
    """How the agent's client treats the server: what it states of it, and what it does with its tools."""

    status: str = "connected"
    drops: bool = False
    asks: bool = True
    hands_on: bool = True


SOUND = Client()
_SHELL: dict[str, Any] = {"name": "Bash", "description": "runs", "input_schema": {"type": "object"}}
_SERVED = "mcp__memory__"


class ToolServer:
    """The agent's end of the tool socket."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(str(path))
        self._lines = self._socket.makefile("rwb")
        self._number = 0

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        said = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        self._lines.write(json.dumps(said).encode() + b"\n")
        self._lines.flush()
        found: dict[str, Any] = json.loads(self._lines.readline())
        told = {"content": [{"type": "text", "text": str(found.get("error"))}], "isError": True}
        answer: dict[str, Any] = found.get("result", told)
        return answer

    def close(self) -> None:
        self._lines.close()
        self._socket.close()


class ToolWorkspace(PlayedWorkspace):
    """Plays the agent; in an arm with tools their socket stands in the container.

    `does` says what comes of it: what its model says, the whole answer whatever memory says, or nothing.
    """

    gateway_url = "http://127.0.0.1:8080"

    def __init__(
        self, task: TaskPin, sockets: Path, *, tools: bool, does: Does, client: Client
    ) -> None:
        super().__init__(task, lambda _: None)
        self._client = client
        self._sockets = sockets
        self._tools = tools
        self._does = does
        self._task_id = task.digests.id
        self._heard: list[str] = []
        if tools:
            seen = FileSeen(path=f"/run/memtrial/{SOCKET_NAME}", kind="other", bytes=0, sha256=None)
            files = tuple(sorted((*self.inventory.files, seen), key=lambda file: file.path))
            self.inventory = self.inventory.model_copy(update={"files": files})

    def act(self, launch: Launch) -> ActOutcome:
        server = ToolServer(self._sockets / SOCKET_NAME) if self._tools else None
        offered = [_SHELL]
        if server is not None:
            server.ask("initialize", protocolVersion="2025-06-18", capabilities={})
            listed = server.ask("tools/list")["tools"]
            offered += [
                {"name": _SERVED + tool["name"], "input_schema": tool["inputSchema"]}
                for tool in listed
            ]
        messages: list[dict[str, Any]] = [{"role": "user", "content": launch.stdin.decode()}]
        while calls := self._turn(dict(launch.environment), messages, offered):
            results = [self._result(call, server) for call in calls]
            messages.append({"role": "user", "content": results})
            offered = offered[:1] if self._client.drops else offered
        if server is not None:
            server.close()
        if self._does != "as told":
            task = load_task(fixtures_root(), self._task_id)
            self._patch = task.rehearsal.reference_patch if self._does == "all" else ""
        return ActOutcome("exited", 0, self._said(), output_truncated=False)

    def _said(self) -> bytes:
        """Returns what it prints: its servers, and at its end the first note of each answer, by name."""
        servers = [{"name": "memory", "status": self._client.status}] if self._tools else []
        cited = [id_ for text in self._heard for id_ in re.findall(r"\[mem:[^\]]+\]", text)[:1]]
        done = {"content": [{"type": "text", "text": f"Done, by {' '.join(cited)}."}]}
        events: list[dict[str, Any]] = [
            {"type": "system", "subtype": "init", "mcp_servers": servers},
            {"type": "assistant", "message": done},
        ]
        return b"".join(json.dumps(event).encode() + b"\n" for event in events)

    def _result(self, call: dict[str, Any], server: ToolServer | None) -> dict[str, Any]:
        text = "exit 0"
        if call["name"].startswith(_SERVED) and not self._client.asks:
            text = "denied"
        elif server is not None and call["name"].startswith(_SERVED):
            name = call["name"].removeprefix(_SERVED)
            answer = server.ask("tools/call", name=name, arguments=call["input"])
            text = answer["content"][0]["text"]
            self._heard.append(text)
            text = text if self._client.hands_on else "(done)"
        elif MARK in call["input"]["command"]:
            command = call["input"]["command"]
            self._patch = command.split(f"<<'{MARK}'\n", 1)[1].rpartition(MARK)[0]
        return {"type": "tool_result", "tool_use_id": call["id"], "content": text}

    def _turn(
        self,
        environment: dict[str, str],
        messages: list[dict[str, Any]],
        offered: list[dict[str, Any]],
    ) -> list[dict[str, Any]]:
        """Asks once; returns the tools that the model wants called."""
        body = {
            "model": "claude-sonnet-5-5",
            "max_tokens": 4096,
            "messages": messages,
            "tools": offered,
        }
        connection = SocketHTTP(self._sockets / "gateway.sock")
        headers = {"x-api-key": environment["ANTHROPIC_API_KEY"], "anthropic-version": "2023-06-01"}
        connection.request("POST", "/v1/messages", body=json.dumps(body), headers=headers)
        answer = connection.getresponse()
        data = answer.read()
        connection.close()
        assert answer.status == 200, data
        content = json.loads(data)["content"]
        messages.append({"role": "assistant", "content": content})
        return [block for block in content if block["type"] == "tool_use"]


class ToolSandbox(PlayedSandbox):
    """Containers whose agent asks the gateway, and its arm's tools where there are any."""

    def __init__(self, does: Does, client: Client) -> None:
        super().__init__()
        self._does = does
        self._client = client

    @contextmanager
    def open(
        self, task: TaskPin, *, trial: str, sockets: Path | None = None
    ) -> Iterator[PlayedWorkspace]:
        assert sockets is not None
        tools = "/no_memory/" not in trial
        yield ToolWorkspace(task, sockets, tools=tools, does=self._does, client=self._client)


def record_tool_run(
    results: Path,
    request: PlanRequest = TOOLS,
    adapters: Mapping[str, Callable[[], MemoryAdapter]] | None = None,
    does: Does = "as told",
    client: Client = SOUND,
) -> Path:
    """Runs a plan with an arm of tools under its own gateway process; returns the folder, unsealed."""
    plan = make_plan(request)
    tasks = tuple(load_task(fixtures_root(), pin.digests.id) for pin in plan.tasks)
    run = Run.create(results, plan, engine="played", workers=1)
    with gateway_of(plan, run.folder, tasks) as gateway:
        record = run.folder / "gateway"
        made = benches(plan, ToolSandbox(does, client), gateway, adapters, record)
        run.execute(made, workers=1, progress=lambda _: None)
    run.close()
    write_reports(run.folder)
    return run.folder


def document_of(folder: Path, arm: str, stage: Stage, name: str) -> dict[str, Any]:
    """Returns a document among the artifacts of the last attempt under an arm."""
    run = replay(read_entries(folder / "ledger.jsonl")[0])
    (trial,) = [t for key, t in run.trials.items() if f"/{arm}/" in key]
    done = trial.attempts[-1].stages[stage]
    sha256 = next(a.sha256 for a in done.artifacts if a.name == name)
    found: dict[str, Any] = json.loads(BlobStore(folder / "blobs").get(sha256))
    return found

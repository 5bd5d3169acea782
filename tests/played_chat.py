"""A chat agent without a container: asks the run's real gateway over its socket, and applies what it is told.

Says in codex's words what it used, truly or not, so that a report has an agent's own figures to compare.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from orchestrator.core.places import fixtures_root
from orchestrator.model.plan import TaskPin
from orchestrator.pipeline.options import PlanRequest
from orchestrator.pipeline.run import Run
from orchestrator.pipeline.traffic import MARK, gateway_of
from orchestrator.protocols import ActOutcome, Launch
from orchestrator.sources.loader import load_task
from tests.recorded import (
    PlayedSandbox,
    PlayedWorkspace,
    benches,
    make_plan,
    write_reports,
)

CHAT = PlanRequest(
    agents=("chat",),
    tasks=("depotfeed-returns",),
    conditions=("no_memory", "curated_file_budgeted"),
)


class SocketHTTP(HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("gateway", timeout=60)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(str(self._path))


class ChattingWorkspace(PlayedWorkspace):
    """Plays the chat agent; `exaggerates` is what it adds to its own figures."""

    gateway_url = "http://127.0.0.1:8080"

    def __init__(self, task: TaskPin, sockets: Path, exaggerates: int) -> None:
        super().__init__(task, lambda _: None)
        self._socket = sockets / "gateway.sock"
        self._exaggerates = exaggerates

    def act(self, launch: Launch) -> ActOutcome:
        environment = dict(launch.environment)
        messages: list[dict[str, Any]] = [{"role": "user", "content": launch.stdin.decode()}]
        used = {"input_tokens": self._exaggerates, "output_tokens": 0}
        while True:
            answer = self._ask(environment, messages)
            if answer is None:
                return ActOutcome("exited", 1, b"refused\n", output_truncated=False)
            used["input_tokens"] += answer["usage"]["prompt_tokens"]
            used["output_tokens"] += answer["usage"]["completion_tokens"]
            message = answer["choices"][0]["message"]
            messages.append(message)
            for call in message.get("tool_calls") or []:
                command = json.loads(call["function"]["arguments"])["command"]
                if MARK in command:
                    self._patch = command.split(f"<<'{MARK}'\n", 1)[1].rpartition(MARK)[0]
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": "exit 0"})
            if not message.get("tool_calls"):
                event = {"type": "turn.completed", "usage": used}
                output = b"played\n" + json.dumps(event).encode() + b"\n"
                return ActOutcome("exited", 0, output, output_truncated=False)

    def _ask(
        self, environment: dict[str, str], messages: list[dict[str, Any]]
    ) -> dict[str, Any] | None:
        """Returns the answer; None when the gateway refuses the call."""
        body = {"model": environment["MEMTRIAL_MODEL"], "messages": messages}
        connection = SocketHTTP(self._socket)
        connection.request(
            "POST",
            "/v1/chat/completions",
            body=json.dumps(body),
            headers={"authorization": f"Bearer {environment['OPENAI_API_KEY']}"},
        )
        answer = connection.getresponse()
        data = answer.read()
        connection.close()
        if answer.status == 400:
            return None
        assert answer.status == 200, data
        found: dict[str, Any] = json.loads(data)
        return found


class ChattingSandbox(PlayedSandbox):
    """Containers whose agent asks the gateway."""

    def __init__(self, exaggerates: int = 0) -> None:
        super().__init__()
        self._exaggerates = exaggerates

    @contextmanager
    def open(
        self, task: TaskPin, *, trial: str, sockets: Path | None = None
    ) -> Iterator[PlayedWorkspace]:
        assert sockets is not None
        yield ChattingWorkspace(task, sockets, self._exaggerates)


def record_chat_run(results: Path, request: PlanRequest = CHAT, *, exaggerates: int = 0) -> Path:
    """Runs a plan of the chat agent under its own gateway process; returns the folder, unsealed."""
    plan = make_plan(request)
    tasks = tuple(load_task(fixtures_root(), pin.digests.id) for pin in plan.tasks)
    run = Run.create(results, plan, engine="played", workers=1)
    with gateway_of(plan, run.folder, tasks) as gateway:
        record = run.folder / "gateway"
        made = benches(plan, ChattingSandbox(exaggerates), gateway, record=record)
        run.execute(made, workers=1, progress=lambda _: None)
    run.close()
    write_reports(run.folder)
    return run.folder

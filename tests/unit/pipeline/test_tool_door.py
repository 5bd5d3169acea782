"""Promise: the door to memory tools answers while the agent acts, survives its own faults, and tells them."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from orchestrator.agents import channels
from orchestrator.core.errors import EnvironmentMissing
from orchestrator.memory.none import EmptyAdapter
from orchestrator.memory.tools import server as tools
from orchestrator.memory.tools.session import MAX_LINE_BYTES
from orchestrator.memory.tools.store import ServedStore
from orchestrator.pipeline.toolserver import MAX_CONNECTIONS, SOCKET_NAME, ToolDoor
from tests.unit.memory.test_tool_server import (
    BUDGET,
    COUNTER,
    PING,
    Crashing,
    OfOurEngine,
    note,
    served,
)


@pytest.fixture
def empty():
    return served(EmptyAdapter(COUNTER))


def test_an_agent_reaches_the_server_through_its_bridge_and_nobody_afterwards(empty, tmp_path):
    door = ToolDoor(tmp_path)
    bridge = [sys.executable, "-I", "-B", "-c", channels.BRIDGE, str(tmp_path / SOCKET_NAME)]
    line = b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n'
    with door.serving(empty):
        done = subprocess.run(bridge, input=line, capture_output=True, timeout=30, check=True)
        assert json.loads(done.stdout)["result"] == {}
    late = subprocess.run(bridge, input=line, capture_output=True, timeout=30, check=False)
    assert (late.returncode != 0, late.stdout) == (True, b"")


def pinged(client: socket.socket, folder: Path) -> bytes:
    client.settimeout(10)
    client.connect(str(folder / SOCKET_NAME))
    client.sendall(PING)
    return client.recv(1000)


def test_an_agent_may_connect_as_often_as_it_likes_and_hold_only_so_many_connections(
    empty, tmp_path
):
    with ToolDoor(tmp_path).serving(empty):
        for _ in range(2 * MAX_CONNECTIONS):
            with socket.socket(socket.AF_UNIX) as client:
                assert b"result" in pinged(client, tmp_path)
        # The other side learns of the last ends by threads of its own.
        time.sleep(1)
        with contextlib.ExitStack() as held:
            ends = [held.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(MAX_CONNECTIONS)]  # fmt: skip
            assert all(b"result" in pinged(end, tmp_path) for end in ends)
            with contextlib.suppress(OSError):
                assert pinged(held.enter_context(socket.socket(socket.AF_UNIX)), tmp_path) == b""
            ends[0].sendall(PING.replace(b"1,", b"2,"))
            assert b"result" in ends[0].recv(1000)


def test_one_accept_that_fails_ends_no_door_and_is_told(empty, tmp_path, monkeypatch):
    door = ToolDoor(tmp_path)
    listener = door._listener
    failed: list[bool] = []

    class Failing:
        def accept(self) -> tuple[socket.socket, object]:
            if not failed:
                failed.append(True)
                raise OSError(24, "Too many open files")
            return listener.accept()

        def __getattr__(self, name: str) -> Any:
            return getattr(listener, name)

    monkeypatch.setattr(door, "_listener", Failing())
    with door.serving(empty), socket.socket(socket.AF_UNIX) as client:
        assert b"result" in pinged(client, tmp_path)
    assert door.fault == "accept: Too many open files"


def test_a_line_that_is_too_long_is_refused_once_and_ends_its_connection(empty, tmp_path):
    with ToolDoor(tmp_path).serving(empty), socket.socket(socket.AF_UNIX) as client:
        client.settimeout(10)
        client.connect(str(tmp_path / SOCKET_NAME))
        with contextlib.suppress(OSError):
            client.sendall(b"x" * (2 * MAX_LINE_BYTES) + b"\n" + PING)
        answers = b""
        with contextlib.suppress(OSError):
            while data := client.recv(4096):
                answers += data
    assert (answers.count(b"\n"), empty.log().refused) == (1, 1)


def test_an_error_of_the_harness_while_it_serves_is_raised_when_the_agent_has_ended(tmp_path):
    adapter = OfOurEngine([note("m1", "active")])
    server = tools.MemoryServer(ServedStore(adapter, BUDGET, COUNTER, 5, ours=True), "empty")
    params = {"name": "memory_search", "arguments": {"query": "x"}}
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})

    def ask() -> None:
        with ToolDoor(tmp_path).serving(server), socket.socket(socket.AF_UNIX) as client:
            client.settimeout(10)
            client.connect(str(tmp_path / SOCKET_NAME))
            client.sendall(line.encode() + b"\n")
            assert client.recv(1000) == b""

    with pytest.raises(EnvironmentMissing, match="expected an engine"):
        ask()
    assert server.log().failure is None


def test_a_fault_of_the_system_ends_no_connection_and_no_door(tmp_path):
    server = served(Crashing([note("m1", "active")]))
    params = {"name": "memory_search", "arguments": {"query": "x"}}
    line = json.dumps({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params})
    with ToolDoor(tmp_path).serving(server), socket.socket(socket.AF_UNIX) as client:
        assert b"result" in pinged(client, tmp_path)
        client.sendall(line.encode() + b"\n")
        assert b"-32603" in client.recv(1000)
        with socket.socket(socket.AF_UNIX) as other:
            assert b"result" in pinged(other, tmp_path)

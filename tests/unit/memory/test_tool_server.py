"""Promise: a frozen store answers an agent's own questions over MCP, in the shared template, and all is noted."""

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
from orchestrator.core.canonical import sha256_hex
from orchestrator.core.places import fixtures_root
from orchestrator.memory.life import live
from orchestrator.memory.none import EmptyAdapter
from orchestrator.memory.tokens import TokenCounter
from orchestrator.memory.tools import server as tools
from orchestrator.memory.tools.conformance import check_tools
from orchestrator.model.condition import MemoryBudget
from orchestrator.pipeline.memory import adapter_of, memory_assignment
from orchestrator.pipeline.parity import query_of
from orchestrator.pipeline.toolserver import MAX_CONNECTIONS, SOCKET_NAME, ToolDoor, served_store
from orchestrator.sandbox.harden import GATEWAY_FOLDER
from orchestrator.sources.loader import load_conditions, load_task

COUNTER = TokenCounter()
BUDGET = MemoryBudget(unit="o200k_base", max_tokens=700)


def asked(server: tools.MemoryServer, method: str, **params: Any) -> dict[str, Any]:
    line = json.dumps({"jsonrpc": "2.0", "id": 7, "method": method, "params": params})
    answer = server.answer(line.encode())
    assert answer is not None
    assert answer.endswith(b"\n")
    found: dict[str, Any] = json.loads(answer)
    assert (found["jsonrpc"], found["id"]) == ("2.0", 7)
    return found


def searched(server: tools.MemoryServer, query: str) -> dict[str, Any]:
    answer = asked(server, "tools/call", name="memory_search", arguments={"query": query})
    found: dict[str, Any] = answer["result"]
    return found


@pytest.fixture(scope="module")
def arm():
    arms = {c.id: c for c in load_conditions(fixtures_root()).conditions}
    return arms["reference_mcp"]


@pytest.fixture(scope="module")
def store(arm):
    """The frozen store of the reference pipeline over a task, as the remember stage keeps it."""
    task = load_task(fixtures_root(), "depotfeed-returns")
    kept: dict[str, bytes] = {}

    def keep(name: str, data: bytes) -> str:
        kept[name] = data
        return sha256_hex(data)

    query = query_of(task.brief, arm.retrieve_k)
    with memory_assignment(arm, task.history, query) as assignment:
        live(adapter_of(arm, None, COUNTER)(), assignment, COUNTER, keep=keep)
    return kept["store.tar"]


@pytest.fixture
def reference(arm, store):
    with served_store(adapter_of(arm, None, COUNTER)(), arm, store, COUNTER) as server:
        yield server


def test_the_store_of_the_reference_pipeline_answers_what_an_agent_asks(reference):
    prompt = load_task(fixtures_root(), "depotfeed-returns").brief.prompt
    result = searched(reference, prompt)
    text = result["structuredContent"]["text"]
    assert result["content"] == [{"type": "text", "text": text}]
    assert "[mem:m" in text
    (call,) = reference.log().calls
    assert (call.tool, call.text, len(call.item_ids)) == (
        "memory_search",
        text,
        result["structuredContent"]["notes"],
    )
    assert COUNTER.count(text) <= BUDGET.max_tokens


def test_one_note_is_returned_by_the_id_that_a_search_gave(reference):
    searched(reference, "returns quantity")
    wanted = reference.log().calls[0].item_ids[0]
    answer = asked(reference, "tools/call", name="memory_get", arguments={"id": wanted})
    assert answer["result"]["structuredContent"]["notes"] == 1
    assert f"[mem:{wanted}]" in answer["result"]["content"][0]["text"]


@pytest.fixture
def empty():
    return tools.MemoryServer(EmptyAdapter(COUNTER), "empty", BUDGET, COUNTER, 5)


def test_an_empty_store_has_the_same_tools_and_nothing_to_say(empty, reference):
    assert asked(empty, "tools/list") == asked(reference, "tools/list")
    assert searched(empty, "returns")["structuredContent"] == {"text": tools.NOTHING, "notes": 0}


def test_a_handshake_and_a_list_are_counted_and_the_list_conforms(empty):
    assert empty.log().connected == empty.log().listed == 0
    shaken = asked(empty, "initialize", protocolVersion="2025-11-25")["result"]
    assert (shaken["protocolVersion"], shaken["instructions"]) == (
        tools.REVISION,
        tools.INSTRUCTIONS,
    )
    check_tools(asked(empty, "tools/list")["result"], server="memory")
    assert (empty.log().connected, empty.log().listed, empty.log().refused) == (1, 1, 0)
    assert empty.answer(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}') is None
    assert asked(empty, "server/discover")["error"]["code"] == -32601
    assert empty.log().refused == 0


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"", -32700),
        (b"\xff\n", -32700),
        (b"[]\n", -32600),
        (b'{"id": 1, "method": "ping"}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": []}', -32602),
    ],
)
def test_what_is_no_request_is_refused_with_a_code_and_counted(empty, line, code):
    answer = json.loads(empty.answer(line) or b"{}")
    assert (answer["error"]["code"], empty.log().refused) == (code, 1)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("memory_write", {"text": "x"}),
        ("memory_search", {}),
        ("memory_search", {"query": 3}),
        ("memory_search", {"query": " "}),
        ("memory_search", {"query": "x", "scope": "other"}),
        ("memory_get", "m1"),
    ],
)
def test_a_call_that_no_tool_takes_is_refused_and_is_no_answer(empty, name, arguments):
    answer = asked(empty, "tools/call", name=name, arguments=arguments)
    assert answer["error"]["code"] == -32602
    assert (empty.log().calls, empty.log().refused) == ((), 1)


@pytest.mark.parametrize(
    "query",
    ["\x00", "\ud800", '"*"', "NEAR(a b) OR (", "é" * 300_000, "a " * 200_000, "' ; --", "m" * 5],
)
@pytest.mark.parametrize("name", sorted(tools.ARGUMENT_OF))
def test_a_hostile_question_is_answered_or_refused_and_the_server_goes_on(reference, name, query):
    params = {"name": name, "arguments": {tools.ARGUMENT_OF[name]: query}}
    line = json.dumps({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params})
    answer = json.loads(reference.answer(line.encode()) or b"{}")
    assert ("result" in answer) != ("error" in answer)
    assert "result" in asked(reference, "ping")
    assert len(reference.log().canonical()) < 1_000_000


def test_calls_are_bounded(empty, monkeypatch):
    monkeypatch.setattr(tools, "MAX_CALLS", 1)
    searched(empty, "once")
    assert "at most 1" in asked(empty, "tools/call", name="memory_get", arguments={"id": "m1"})["error"]["message"]  # fmt: skip


def test_the_launch_leads_to_this_server_and_to_this_socket():
    assert channels.SERVER == tools.SERVER
    assert f"{GATEWAY_FOLDER}/{SOCKET_NAME}" == channels.SOCKET


def test_an_agent_reaches_the_server_through_its_bridge_and_nobody_afterwards(empty, tmp_path):
    door = ToolDoor(tmp_path)
    bridge = [sys.executable, "-I", "-B", "-c", channels.BRIDGE, str(tmp_path / SOCKET_NAME)]
    line = b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n'
    with door.serving(empty):
        done = subprocess.run(bridge, input=line, capture_output=True, timeout=30, check=True)
        assert json.loads(done.stdout)["result"] == {}
    late = subprocess.run(bridge, input=line, capture_output=True, timeout=30, check=False)
    assert (late.returncode != 0, late.stdout) == (True, b"")


PING = b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n'


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
            ends[0].sendall(PING)
            assert b"result" in ends[0].recv(1000)

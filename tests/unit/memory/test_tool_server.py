"""Promise: a frozen store answers an agent's own questions over MCP, in the shared template, and all is noted."""

from __future__ import annotations

import json
import time
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from orchestrator.agents import channels
from orchestrator.core.canonical import sha256_hex
from orchestrator.core.errors import EnvironmentMissing
from orchestrator.core.places import fixtures_root
from orchestrator.memory.builtin import ranked_of
from orchestrator.memory.compile import compile_context
from orchestrator.memory.life import Limits, live
from orchestrator.memory.none import EmptyAdapter
from orchestrator.memory.sessions import PROJECT
from orchestrator.memory.tokens import TokenCounter
from orchestrator.memory.tools import server as tools
from orchestrator.memory.tools import session as session_module
from orchestrator.memory.tools.conformance import check_tools
from orchestrator.memory.tools.session import Session
from orchestrator.memory.tools.store import ServedStore
from orchestrator.model.condition import MemoryBudget
from orchestrator.model.lifecycle import CompiledContext, Query, Ranked, StoredMemory
from orchestrator.model.toolcalls import MAX_CALLS, ToolLog
from orchestrator.pipeline.memory import adapter_of, memory_assignment
from orchestrator.pipeline.parity import query_of
from orchestrator.pipeline.toolserver import SOCKET_NAME, served_store
from orchestrator.protocols import ServingAdapter
from orchestrator.sandbox.harden import GATEWAY_FOLDER
from orchestrator.sources.loader import load_conditions, load_task

COUNTER = TokenCounter()
TASK = "depotfeed-returns"
BUDGET = MemoryBudget(unit="o200k_base", max_tokens=700)


NUMBERS = count(1)
PING = b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n'


def asked(
    server: tools.MemoryServer, method: str, *, over: Session | None = None, **params: Any
) -> dict[str, Any]:
    number = next(NUMBERS)
    line = json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
    answer = (over or server.session()).answer(line.encode())
    assert answer is not None
    assert answer.endswith(b"\n")
    found: dict[str, Any] = json.loads(answer)
    assert (found["jsonrpc"], found["id"]) == ("2.0", number)
    return found


def served(
    adapter: ServingAdapter, *, k: int = 5, limits: Limits | None = None
) -> tools.MemoryServer:
    return tools.MemoryServer(ServedStore(adapter, BUDGET, COUNTER, k, limits=limits), "empty")


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
    task = load_task(fixtures_root(), TASK)
    kept: dict[str, bytes] = {}

    def keep(name: str, data: bytes) -> str:
        kept[name] = data
        return sha256_hex(data)

    query = query_of(task.brief, arm.retrieve_k)
    with memory_assignment(arm, task.history, query) as assignment:
        live(adapter_of(arm, None, COUNTER)(), assignment, COUNTER, keep=keep)
    return kept


@pytest.fixture
def reference(arm, store):
    adapter = adapter_of(arm, None, COUNTER)()
    sha256 = sha256_hex(store["dump"])
    with served_store(adapter, arm, store["store.tar"], COUNTER, dump_sha256=sha256) as server:
        yield server


def test_the_store_of_the_reference_pipeline_answers_what_an_agent_asks(reference):
    prompt = load_task(fixtures_root(), TASK).brief.prompt
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


def test_an_agent_that_asks_the_prompt_is_shown_what_the_prefix_would_have_said(reference, store):
    prompt = load_task(fixtures_root(), TASK).brief.prompt
    context = CompiledContext.parse_canonical(store["context"], where="context")
    assert searched(reference, prompt)["structuredContent"]["text"] == context.text
    (call,) = reference.log().calls
    assert call.left_out == context.dropped


@pytest.mark.parametrize("status", ["superseded", "held"])
def test_a_memory_that_no_search_may_show_has_no_way_in_by_its_id(status):
    server = served(Kept([note("m1", "active"), note("m2", status)]))
    searched(server, "anything")
    for memory_id, text in (("m1", "- [mem:m1] note m1"), ("m2", tools.NOTHING)):
        answer = asked(server, "tools/call", name="memory_get", arguments={"id": memory_id})
        assert text in answer["result"]["content"][0]["text"]


def test_an_id_that_no_search_gave_is_nothing():
    answer = asked(served(Kept([note("m1", "active")])), "tools/call", name="memory_get", arguments={"id": "m1"})  # fmt: skip
    assert answer["result"]["structuredContent"] == {"text": tools.NOTHING, "notes": 0}


def test_an_answer_is_compiled_by_the_system_itself():
    server = served(Choosy([note("m1", "active"), note("m2", "active")]))
    searched(server, "anything")
    (call,) = server.log().calls
    assert call.item_ids == ("m2",)
    assert [(item.item_id, item.reason) for item in call.left_out] == [("m1", "not_selected")]


@pytest.mark.parametrize(
    ("broken", "step", "kind"),
    [
        ("Crashing", "retrieve", "crashed"),
        ("Foreign", "retrieve", "contract_broken"),
        ("Flattering", "compile", "contract_broken"),
    ],
)
def test_a_system_that_breaks_while_it_serves_has_broken_its_contract(broken, step, kind):
    server = served(BROKEN[broken]([note("m1", "active")]))
    answer = asked(server, "tools/call", name="memory_search", arguments={"query": "x"})
    assert answer["error"]["code"] == -32603
    failure = server.log().failure
    assert failure is not None
    assert (failure.step.value, failure.kind) == (step, kind)
    again = asked(server, "tools/call", name="memory_search", arguments={"query": "x"})
    assert (again["error"]["code"], server.log().failure, server.log().calls) == (-32603, failure, ())  # fmt: skip
    assert "result" in asked(server, "ping")


def test_a_system_that_hangs_while_it_serves_is_left_within_its_time():
    server = served(Hanging([note("m1", "active")]), limits=Limits(step_s=0.2))
    answer = asked(server, "tools/call", name="memory_search", arguments={"query": "x"})
    failure = server.log().failure
    assert failure is not None
    assert (answer["error"]["code"], failure.kind) == (-32603, "timed_out")


def test_a_store_that_is_another_when_it_is_opened_again_answers_nothing(arm, store):
    adapter = adapter_of(arm, None, COUNTER)()
    with served_store(adapter, arm, store["store.tar"], COUNTER, dump_sha256="0" * 64) as server:
        answer = asked(server, "tools/call", name="memory_search", arguments={"query": "x"})
        failure = server.log().failure
    assert failure is not None
    assert (answer["error"]["code"], failure.rule) == (-32603, "frozen-is-frozen")


def test_a_store_that_does_not_open_again_is_its_systems_fault(arm):
    with served_store(adapter_of(arm, None, COUNTER)(), arm, None, COUNTER) as server:
        failure = server.log().failure
    assert failure is not None
    assert failure.kind == "crashed"


def test_one_note_is_returned_by_the_id_that_a_search_gave(reference):
    searched(reference, "returns quantity")
    wanted = reference.log().calls[0].item_ids[0]
    answer = asked(reference, "tools/call", name="memory_get", arguments={"id": wanted})
    assert answer["result"]["structuredContent"]["notes"] == 1
    assert f"[mem:{wanted}]" in answer["result"]["content"][0]["text"]


def note(memory_id: str, status: Any) -> StoredMemory:
    return StoredMemory(
        memory_id=memory_id, kind="fact", text=f"note {memory_id}", scope=PROJECT, status=status
    )


class Kept(EmptyAdapter):
    """Serves given memories, of which the active ones are searched."""

    def __init__(self, memories: list[StoredMemory]) -> None:
        super().__init__(COUNTER)
        self._memories = memories

    def retrieve(self, query: Query) -> Ranked:
        mine = [memory for memory in self._memories if memory.status == "active"]
        return ranked_of(query, mine[: query.k], considered=len(mine))


class Choosy(Kept):
    """Leaves out the first of what it ranked, for a reason of its own."""

    def compile(self, ranked: Ranked, budget: MemoryBudget) -> CompiledContext:
        first = ranked.items[0].memory_id
        return compile_context(ranked, budget, COUNTER, refused={first: "not_selected"})


class Crashing(Kept):
    def retrieve(self, query: Query) -> Ranked:
        raise ZeroDivisionError


class Opened(Kept):
    """Notes which folder it was opened on."""

    folder: Path | None = None

    def reopen(self, workdir: Path) -> None:
        self.folder = workdir


class Foreign(Kept):
    """Ranks a memory that its store does not hold."""

    def retrieve(self, query: Query) -> Ranked:
        return ranked_of(query, [note("m9", "active")], considered=1)


class Flattering(Kept):
    """Adds words of its own to the template."""

    def compile(self, ranked: Ranked, budget: MemoryBudget) -> CompiledContext:
        context = super().compile(ranked, budget)
        return context.model_copy(update={"text": f"{context.text}Trust me.\n"})


class Hanging(Kept):
    def retrieve(self, query: Query) -> Ranked:
        time.sleep(2)
        return super().retrieve(query)


class OfOurEngine(Kept):
    """Meets an error of the harness itself."""

    def retrieve(self, query: Query) -> Ranked:
        raise EnvironmentMissing("engine-gone", "expected an engine, found none", hint="start it")


BROKEN = {kind.__name__: kind for kind in (Crashing, Foreign, Flattering)}


@pytest.fixture
def empty():
    return served(EmptyAdapter(COUNTER))


def test_the_system_that_is_opened_again_is_the_one_that_answers(tmp_path):
    adapter = Opened([])
    ServedStore(adapter, BUDGET, COUNTER, 5).reopen(tmp_path, None)
    assert adapter.folder == tmp_path


def test_an_empty_store_has_the_same_tools_and_nothing_to_say(empty, reference):
    assert asked(empty, "tools/list")["result"] == asked(reference, "tools/list")["result"]
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
    assert (
        empty.session().answer(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}') is None
    )
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
        (b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": null}', -32602),
        (b'{"jsonrpc": "2.0", "id": 1, "method": 3}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "result": {}}', -32600),
    ],
)
def test_what_is_no_request_is_refused_with_a_code_and_counted(empty, line, code):
    answer = json.loads(empty.session().answer(line) or b"{}")
    assert (answer["error"]["code"], empty.log().refused) == (code, 1)


@pytest.mark.parametrize(
    "number", ["null", "1.0", "1e400", "true", "[]", "{}", "9007199254740992", f'"{"x" * 201}"']
)
def test_an_id_that_is_no_string_and_no_whole_number_is_refused_and_not_repeated(empty, number):
    line = f'{{"jsonrpc": "2.0", "id": {number}, "method": "ping"}}'
    answer = json.loads(empty.session().answer(line.encode()) or b"{}")
    assert (answer["id"], answer["error"]["code"] in {-32600, -32700}) == (None, True)
    assert empty.log().refused == 1


def test_an_id_is_taken_once_in_a_session_and_again_in_another(empty):
    session, other = empty.session(), empty.session()
    assert b"result" in (session.answer(PING) or b"")
    assert b"-32600" in (session.answer(PING) or b"")
    assert b"result" in (other.answer(PING) or b"")
    assert b"result" in (session.answer(PING.replace(b"1,", b'"1",')) or b"")


def test_a_session_takes_only_so_many_requests(empty, monkeypatch):
    monkeypatch.setattr(session_module, "MAX_REQUESTS", 1)
    session = empty.session()
    asked(empty, "ping", over=session)
    number = next(NUMBERS)
    line = json.dumps({"jsonrpc": "2.0", "id": number, "method": "ping"})
    assert b"-32600" in (session.answer(line.encode()) or b"")


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
    answer = json.loads(reference.session().answer(line.encode()) or b"{}")
    assert ("result" in answer) != ("error" in answer)
    assert "result" in asked(reference, "ping")
    assert len(reference.log().canonical()) < 1_000_000


def test_questions_beyond_their_number_are_refused_and_the_bound_is_told(empty):
    for _ in range(MAX_CALLS):
        searched(empty, "again")
    assert empty.log().bound_met is None
    answer = asked(empty, "tools/call", name="memory_get", arguments={"id": "m1"})
    assert f"at most {MAX_CALLS} questions" in answer["error"]["message"]
    assert (len(empty.log().calls), empty.log().bound_met) == (MAX_CALLS, "calls")


@pytest.mark.parametrize("broken", BROKEN)
def test_a_sound_call_that_a_broken_system_leaves_unanswered_is_no_refusal(broken):
    server = served(BROKEN[broken]([note("m1", "active")]))
    for _ in range(2):
        asked(server, "tools/call", name="memory_search", arguments={"query": "x"})
    assert (server.log().refused, server.log().calls) == (0, ())


@pytest.mark.parametrize("bound", ["MAX_CALLS", "MAX_CALLS_BYTES"])
def test_a_sound_call_that_a_bound_leaves_unanswered_is_no_refusal(empty, monkeypatch, bound):
    monkeypatch.setattr(tools, bound, 0)
    for _ in range(2):
        asked(empty, "tools/call", name="memory_search", arguments={"query": "x"})
    assert (empty.log().refused, empty.log().calls) == (0, ())


def test_a_log_of_the_longest_questions_is_read_again_and_says_which_bound_was_met(empty):
    # A control character takes six bytes in a question's text and seven in the log that holds the text.
    arguments = {"query": "x" + "\x01" * (tools.MAX_TEXT_CHARS - 1)}
    answers = [asked(empty, "tools/call", name="memory_search", arguments=arguments) for _ in range(MAX_CALLS)]  # fmt: skip
    log = empty.log()
    assert 0 < len(log.calls) == sum("result" in answer for answer in answers) < MAX_CALLS
    assert log.bound_met == "bytes"
    assert ToolLog.parse_canonical(log.canonical(), where="log") == log


def test_a_question_is_noted_as_it_was_asked_or_not_answered(empty):
    longest = "q" * tools.MAX_TEXT_CHARS
    searched(empty, longest)
    answer = asked(empty, "tools/call", name="memory_search", arguments={"query": f"{longest}q"})
    assert "at most 20000 characters" in answer["error"]["message"]
    assert [json.loads(call.arguments)["query"] for call in empty.log().calls] == [longest]


def test_the_launch_leads_to_this_server_and_to_this_socket():
    assert channels.SERVER == tools.SERVER
    assert f"{GATEWAY_FOLDER}/{SOCKET_NAME}" == channels.SOCKET

"""Promise: an agent that asks its tools the prompt is followed to the same facts as one that had the answer before it."""

from __future__ import annotations

import json

import pytest

from orchestrator.core.canonical import sha256_hex
from orchestrator.core.places import fixtures_root
from orchestrator.memory.compile import injection_of
from orchestrator.memory.life import live
from orchestrator.memory.tokens import TokenCounter
from orchestrator.model.condition import Condition
from orchestrator.model.memory import Remembered
from orchestrator.model.toolcalls import ToolLog
from orchestrator.model.trace import MemoryTrace
from orchestrator.pipeline.memory import adapter_of, memory_assignment
from orchestrator.pipeline.parity import query_of
from orchestrator.pipeline.toolserver import served_store
from orchestrator.pipeline.tracing import trace_trial
from orchestrator.scoring.given import Asked
from orchestrator.sources.loader import LoadedTask, load_conditions, load_task

COUNTER = TokenCounter()
ARMS = {condition.id: condition for condition in load_conditions(fixtures_root()).conditions}
TOOLS, PREFIX = ARMS["reference_mcp"], ARMS["reference_e2e"]
Lived = tuple[LoadedTask, Remembered, dict[str, bytes]]


@pytest.fixture(scope="module", params=["depotfeed-returns", "ferrytimes-service-day"])
def lived(request) -> Lived:
    """A life of the reference pipeline over a task, as the remember stage keeps it."""
    task = load_task(fixtures_root(), request.param)
    kept: dict[str, bytes] = {}

    def keep(name: str, data: bytes) -> str:
        kept[name] = data
        return sha256_hex(data)

    query = query_of(task.brief, TOOLS.retrieve_k)
    with memory_assignment(TOOLS, task.history, query) as assignment:
        remembered = live(adapter_of(TOOLS, None, COUNTER)(), assignment, COUNTER, keep=keep)
    return task, remembered, kept


def asked(lived: Lived, *questions: str) -> ToolLog:
    """What the served store answered to questions."""
    _, _, kept = lived
    adapter = adapter_of(TOOLS, None, COUNTER)()
    with served_store(adapter, TOOLS, kept["store.tar"], COUNTER) as server:
        session = server.session()
        for number, question in enumerate(questions):
            params = {"name": "memory_search", "arguments": {"query": question}}
            line = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
            assert b"result" in (session.answer(json.dumps(line).encode()) or b"")
        return server.log()


def traced(lived: Lived, condition: Condition, log: ToolLog | None, *, heard: bool) -> MemoryTrace:
    task, remembered, kept = lived
    seqs = frozenset(call.seq for call in log.calls) if log and heard else frozenset()
    return trace_trial(
        "t",
        condition,
        history=task.history,
        key=task.key,
        read=kept.get,
        remembered=remembered,
        injection=injection_of(remembered.context, condition, task.brief.prompt, COUNTER),
        diff=b"",
        output=b"",
        asked=None if log is None else Asked(log, seqs),
    )


def test_the_prompt_as_a_question_leads_to_the_facts_of_the_prefix(lived):
    before = traced(lived, PREFIX, None, heard=False)
    by_tools = traced(lived, TOOLS, asked(lived, lived[0].brief.prompt), heard=True)
    assert by_tools.facts == before.facts
    assert any(fact.delivered for fact in by_tools.facts)
    assert by_tools.asked is not None
    assert set(by_tools.asked.by_prompt) == {f.fact_id for f in before.facts if f.ranked}


def test_an_answer_that_no_model_heard_delivers_nothing(lived):
    unheard = traced(lived, TOOLS, asked(lived, lived[0].brief.prompt), heard=False)
    assert not any(fact.delivered for fact in unheard.facts)
    assert any(fact.included for fact in unheard.facts)


def test_a_question_about_something_else_brings_no_fact_up_and_the_prompt_would_have(lived):
    other = traced(lived, TOOLS, asked(lived, "zzzz"), heard=True)
    assert other.asked is not None
    assert other.asked.by_prompt
    assert other.asked.questions == other.asked.heard == 1

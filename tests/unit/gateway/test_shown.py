"""Promise: the record proves which calls carried the arm's memory, and a missing, cut or foreign byte is seen."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from orchestrator.core.canonical import sha256_hex
from orchestrator.gateway.recorded import RecordedCall
from orchestrator.gateway.shown import LABELS, Expected, prove, strings, tools_of
from orchestrator.model.exchange import Body, Cost, Exchange
from orchestrator.model.toolcalls import ServedCall, ServedTool, ToolLog

MEMORY = "<memory>\n# Notes\n- [mem:a1] Returns are counted in halves.\n</memory>\n\n"
PROMPT = "Make the feed count returns."
TOOL = {"type": "function", "function": {"name": "bash"}}


def call(ordinal: int, body: dict[str, Any], *, outcome: str = "answered") -> RecordedCall:
    raw = repr(body).encode()
    exchange = Exchange(
        trial="t",
        attempt=1,
        role="agent",
        api="chat",
        ordinal=ordinal,
        mode="scripted",
        method="POST",
        target="/v1/chat/completions",
        request_headers=(),
        request=Body(sha256=sha256_hex(raw), bytes=len(raw), pieces=()),
        model="scripted-1",
        outcome=outcome,  # type: ignore[arg-type]
        detail=None,
        cap=None,
        status=200,
        response_headers=(),
        response=Body(sha256=sha256_hex(b""), bytes=0, pieces=()),
        tries=(),
        served_model=None,
        fingerprint=None,
        usage=None,
        usage_source="none",
        reserved_usd_micros=0,
        cost=Cost(usd_micros=0, uncached_usd_micros=0),
        match=None,
        at="2026-11-30T00:00:00Z",
        first_byte_ms=None,
        total_ms=0,
    )
    return RecordedCall(exchange, body)


def chat(*said: tuple[str, str], tools: bool = True) -> dict[str, Any]:
    messages = [{"role": role, "content": text} for role, text in said]
    return {"messages": messages, **({"tools": [TOOL]} if tools else {})}


def expected(text: str = MEMORY) -> Expected:
    return Expected("t", 1, "curated", "prompt_prefix", text, PROMPT)


def framed(text: str) -> str:
    return text + PROMPT


GIVEN = ("user", framed(MEMORY))
DONE = ("assistant", "Looking.")


def test_memory_that_stands_in_every_main_call_is_shown_with_its_place():
    proof = prove([call(0, chat(GIVEN)), call(1, chat(GIVEN, DONE))], expected())
    assert (proof.result, proof.holds) == ("shown", True)
    assert [c.kind for c in proof.calls] == ["main", "main"]
    place = proof.calls[1].slices[0]
    assert (place.pointer, place.offset) == ("/messages/0/content", 0)
    assert place.sha256 == sha256_hex(MEMORY.encode()) == proof.expected_sha256


@pytest.mark.parametrize("cut", [1, 3, len(MEMORY) // 2])
def test_memory_that_lacks_its_last_bytes_is_lost(cut):
    proof = prove([call(0, chat(("user", MEMORY[:-cut] + PROMPT)))], expected())
    assert proof.result in {"lost", "foreign"}
    assert not proof.holds


def test_one_changed_byte_is_lost_and_not_shown():
    other = MEMORY.replace("halves", "halfes")
    assert not prove([call(0, chat(("user", other + PROMPT)))], expected()).holds


def test_memory_that_a_later_main_call_lacks_is_lost():
    proof = prove([call(0, chat(GIVEN)), call(1, chat(("user", PROMPT), DONE))], expected())
    assert (proof.result, proof.detail.startswith("call 1")) == ("lost", True)


def test_memory_that_stands_twice_is_not_what_was_declared():
    twice = call(0, chat(("system", MEMORY), GIVEN))
    assert not prove([twice], expected()).holds


def test_after_an_answered_compaction_the_bytes_may_be_gone():
    asked = ("user", "Create a detailed summary of the conversation so far.")
    calls = [
        call(0, chat(GIVEN)),
        call(1, chat(GIVEN, DONE, asked)),
        call(2, chat(("user", "Summary: work on returns."))),
    ]
    proof = prove(calls, expected())
    assert [c.kind for c in proof.calls] == ["main", "compaction", "main"]
    assert (proof.result, proof.calls[2].compacted) == ("shown", True)


def test_a_compaction_that_failed_excuses_nothing():
    asked = ("user", "Create a detailed summary of the conversation so far.")
    calls = [
        call(0, chat(GIVEN)),
        call(1, chat(GIVEN, DONE, asked), outcome="upstream_cut"),
        call(2, chat(("user", PROMPT), DONE)),
    ]
    assert prove(calls, expected()).result == "lost"


def test_a_title_call_without_tools_is_a_side_call():
    calls = [call(0, chat(GIVEN)), call(1, chat(("user", "Name this talk."), tools=False))]
    proof = prove(calls, expected())
    assert ([c.kind for c in proof.calls], proof.result) == (["main", "side"], "shown")


def test_a_control_arm_without_any_sign_of_memory_is_absent():
    proof = prove([call(0, chat(("user", PROMPT)))], expected(""))
    assert (proof.result, proof.foreign) == ("absent", ())


@pytest.mark.parametrize(
    "text",
    [
        MEMORY,
        "SessionStart:startup hook success: remember halves",
        "SessionStart hook additional context: remember halves",
        "# AGENTS.md instructions for /work\nuse halves",
        "Contents of /work/CLAUDE.md (project instructions, checked in):",
        "- [mem:zz] from another arm",
    ],
)
def test_a_control_arm_that_was_told_something_is_foreign(text):
    proof = prove([call(0, chat(("user", text), ("user", PROMPT)))], expected(""))
    assert (proof.result, proof.holds) == ("foreign", False)


def test_what_a_tool_printed_is_no_sign_of_memory():
    seen = [
        call(0, chat(("user", PROMPT))),
        call(1, chat(("user", PROMPT), DONE, ("tool", MEMORY))),
    ]
    assert prove(seen, expected("")).result == "absent"


def test_a_summary_that_cites_memory_or_a_file_is_the_models_own_and_decides_nothing():
    asked = ("user", "Create a detailed summary of the conversation so far.")
    line = "Always answer in halves, as the team decided."
    summary = ("user", f"Summary: by [mem:a1] and AGENTS.md ({line}) returns are in halves.")
    calls = [call(0, chat(GIVEN)), call(1, chat(GIVEN, DONE, asked)), call(2, chat(summary))]
    files = (("AGENTS.md", (line,)),)
    with_memory = replace(expected(), steering=files)
    assert prove(calls, with_memory).result == "shown"
    without = replace(expected(""), steering=files)
    plain = [
        call(0, chat(("user", PROMPT))),
        call(1, chat(("user", PROMPT), DONE, asked)),
        calls[2],
    ]
    proof = prove(plain, without)
    assert (proof.result, {n.sign for n in proof.noted}) == ("absent", {"[mem:", "file AGENTS.md"})


def test_what_a_side_call_says_is_noted_and_takes_no_block_from_other_arms():
    side = call(1, chat(("user", "<memory>\nSub-agent: check [mem:a1]."), tools=False))
    for text in (MEMORY, ""):
        proof = prove([call(0, chat(("user", framed(text)))), side], expected(text))
        assert (proof.holds, proof.foreign, len(proof.noted)) == (True, (), 2)


def test_a_tool_server_that_the_arm_does_not_declare_is_foreign():
    body = {**chat(("user", PROMPT)), "tools": [TOOL, {"name": "mcp__mem__recall"}]}
    assert prove([call(0, body)], expected("")).result == "foreign"


def test_an_agent_that_asked_nothing_or_never_its_task_is_told_apart():
    assert prove([], expected()).result == "no_call"
    assert prove([call(0, chat(("user", "hello")))], expected()).result == "unprompted"


def test_a_prompt_that_looks_like_memory_is_the_task_and_no_sign():
    odd = Expected("t", 1, "none", "prompt_prefix", "", "Explain <memory>\nand [mem:x] tags.")
    assert prove([call(0, chat(("user", odd.prompt)))], odd).result == "absent"


def test_strings_come_with_pointers_that_escape_names():
    body: dict[str, object] = {"input": [{"a/b": {"c~d": "x"}}], "instructions": "i"}
    assert list(strings(body)) == [("/instructions", "i"), ("/input/0/a~1b/c~0d", "x")]


def test_tools_of_a_namespace_are_named_with_it():
    body: dict[str, object] = {
        "tools": [TOOL, {"type": "namespace", "name": "mcp__mem", "tools": [{"name": "recall"}]}]
    }
    assert tools_of(body) == ("bash", "mcp__mem.recall")


def test_a_line_of_a_file_that_steers_agents_is_foreign_and_its_name_alone_is_none():
    line = "Always answer in halves, as the team decided."
    told = Expected("t", 1, "none", "prompt_prefix", "", PROMPT, (("CLAUDE.md", (line,)),))
    quiet = prove([call(0, chat(("system", "There may be a CLAUDE.md."), ("user", PROMPT)))], told)
    assert (quiet.result, quiet.steering) == ("absent", ("CLAUDE.md",))
    heard = prove([call(0, chat(("system", f"# Notes\n{line}\n"), ("user", PROMPT)))], told)
    assert (heard.result, heard.foreign[0].sign) == ("foreign", "file CLAUDE.md")


@pytest.mark.parametrize(("channel", "label"), LABELS.items())
def test_text_that_came_by_the_declared_channel_is_shown_and_by_another_is_not(channel, label):
    told = replace(expected(MEMORY.rstrip("\n")), channel=channel, label=label)
    by_channel = ("user", f"{label}{told.text}\n\n# Environment")
    shown = prove([call(0, chat(by_channel, ("user", PROMPT)))], told)
    assert (shown.result, shown.foreign) == ("shown", ())
    assert shown.calls[0].slices[0].offset == len(label)
    other = prove([call(0, chat(("user", told.text), ("user", PROMPT)))], told)
    assert not other.holds
    twice = prove([call(0, chat(by_channel, by_channel, ("user", PROMPT)))], told)
    assert not twice.holds


LOG = ToolLog(
    server="memory",
    adapter="reference",
    tools=tuple(ServedTool(name=n, sha256="0" * 64) for n in ("memory_search", "memory_get")),
    connected=1,
    listed=1,
    calls=(
        ServedCall(seq=0, tool="memory_search", arguments="{}", item_ids=("m1",), text='- [mem:m1] "A"\n'),
        ServedCall(seq=1, tool="memory_get", arguments="{}", item_ids=(), text="No note fits."),
    ),
    refused=0,
)  # fmt: skip
CLAUDES = [{"name": f"mcp__memory__{tool.name}"} for tool in LOG.tools]
CODEX = [
    {"type": "namespace", "name": "mcp__memory", "tools": [{"name": t.name} for t in LOG.tools]}
]


def interactive(log: ToolLog = LOG) -> Expected:
    return replace(expected(""), channel="mcp", log=log)


def offering(tools: list[dict[str, Any]], *said: tuple[str, str]) -> dict[str, Any]:
    return {**chat(("user", PROMPT), *said), "tools": [TOOL, *tools]}


@pytest.mark.parametrize("tools", [CLAUDES, CODEX])
def test_tools_that_stand_in_every_main_call_are_served_and_their_answers_are_found(tools):
    heard = ("tool", json.dumps({"text": LOG.calls[0].text}))
    calls = [call(0, offering(tools)), call(1, offering(tools, DONE, heard))]
    proof = prove(calls, interactive())
    assert (proof.result, proof.holds, proof.foreign) == ("served", True, ())
    assert [(a.seq, a.ordinal, a.pointer) for a in proof.answers] == [
        (0, 1, "/messages/2/content"),
        (1, None, None),
    ]


@pytest.mark.parametrize("tools", [[], CLAUDES[:1]])
def test_a_tool_that_a_main_call_lacks_is_lost(tools):
    calls = [call(0, offering(CLAUDES)), call(1, offering(tools, DONE))]
    assert prove(calls, interactive()).result == "lost"


@pytest.mark.parametrize("part", ["connected", "listed"])
def test_a_server_that_no_agent_shook_hands_with_is_lost(part):
    log = LOG.model_copy(update={part: 0})
    assert prove([call(0, offering(CLAUDES))], interactive(log)).result == "lost"


@pytest.mark.parametrize("name", ["mcp__other__memory_search", "mcp__memory__memory_write"])
def test_a_tool_that_the_arms_server_does_not_list_is_foreign(name):
    calls = [call(0, offering([*CLAUDES, {"name": name}]))]
    assert prove(calls, interactive()).result == "foreign"


@pytest.mark.parametrize(
    "said", ["# MCP Server Instructions\n## memory", "Deferred:\n- mcp__memory: x"]
)
def test_words_of_a_server_are_foreign_in_an_arm_without_one(said):
    calls = [call(0, chat(("system", said), ("user", PROMPT)))]
    assert prove(calls, expected("")).result == "foreign"
    with_tools = [call(0, {**chat(("system", said), ("user", PROMPT)), "tools": CLAUDES})]
    assert prove(with_tools, interactive()).result == "served"

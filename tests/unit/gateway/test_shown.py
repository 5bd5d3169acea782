"""Promise: the record proves which calls carried the arm's memory, and a missing, cut or foreign byte is seen."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from orchestrator.core.canonical import sha256_hex
from orchestrator.gateway import shown
from orchestrator.gateway.conversation import preface, strings, tools_of
from orchestrator.gateway.recorded import RecordedCall
from orchestrator.gateway.shown import LABELS, Expected, prove
from orchestrator.model.exchange import Body, Cost, Exchange
from orchestrator.model.lifecycle import ContractFailure, Step
from orchestrator.model.proof import (
    CONNECTED,
    MAX_CALLS_TOLD,
    MAX_LISTS,
    MAX_NAMES,
    MAX_SLICES,
    MAX_STEERING,
    UNSAID,
    InjectionProof,
    Rest,
)
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
    assert (proof.result, proof.foreign, proof.files) == ("absent", (), ())
    assert [n.sign for n in (*proof.noted, *proof.noted_files)] == ["[mem:", "file AGENTS.md"]


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
    assert (heard.result, heard.files[0].sign) == ("foreign", "file CLAUDE.md")


def test_what_a_request_says_first_is_read_once_however_much_is_looked_for(monkeypatch):
    read: list[dict[str, object]] = []

    def counted(body: dict[str, object]) -> dict[str, object]:
        read.append(body)
        return preface(body)

    monkeypatch.setattr(shown, "preface", counted)
    calls = [call(number, chat(GIVEN)) for number in range(3)]
    line = "Always answer in halves, as the team decided."
    assert prove(calls, replace(expected(), steering=(("CLAUDE.md", (line,)),))).result == "shown"
    assert read == [made.body for made in calls]


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
def test_a_tool_that_the_first_main_call_lacks_is_lost(tools):
    proof = prove([call(0, offering(tools))], interactive())
    assert (proof.result, proof.blame, proof.holds) == ("lost", "harness", False)


FAILED = ContractFailure(step=Step.RETRIEVE, kind="crashed", rule="step-without-exception", detail="x")  # fmt: skip


@pytest.mark.parametrize("tools", [[], CLAUDES[:1]])
@pytest.mark.parametrize(
    ("evidence", "blame", "holds"),
    [
        ({}, "agent", True),
        ({"failure": FAILED}, "arm", True),
        ({"door": "accept: Too many open files"}, "harness", False),
        ({"failure": FAILED, "door": "accept: Too many open files"}, "arm", True),
    ],
)
def test_tools_that_a_later_main_call_lacks_are_dropped_and_evidence_says_by_whom(
    tools, evidence, blame, holds
):
    calls = [call(0, offering(CLAUDES)), call(1, offering(tools, DONE))]
    proof = prove(calls, interactive(LOG.model_copy(update=evidence)))
    assert (proof.result, proof.blame, proof.holds) == ("dropped", blame, holds)


def test_tools_that_are_gone_after_a_compaction_are_no_loss():
    asked = ("user", "Create a detailed summary of the conversation so far.")
    calls = [call(0, offering(CLAUDES)), call(1, offering(CLAUDES, DONE, asked)), call(2, offering([]))]  # fmt: skip
    assert prove(calls, interactive()).result == "served"


@pytest.mark.parametrize("stated", ["pending", "failed", UNSAID])
def test_a_client_that_states_itself_that_it_has_not_reached_the_server_was_not_given_it(stated):
    told = replace(interactive(), stated=stated)
    proof = prove([call(0, offering(CLAUDES))], told)
    assert (proof.result, proof.blame, proof.holds) == ("unconnected", "harness", False)
    assert proof.stated == stated
    assert prove([], told).result == ("no_call" if stated == UNSAID else "unconnected")


@pytest.mark.parametrize("stated", [CONNECTED, None])
def test_a_client_that_states_its_server_or_none_at_all_is_proven_by_the_record(stated):
    proof = prove([call(0, offering(CLAUDES))], replace(interactive(), stated=stated))
    assert (proof.result, proof.stated) == ("served", stated)


def test_a_door_that_failed_before_an_agent_that_never_called_is_no_failure_of_the_agents():
    update = {"connected": 0, "door": "accept: Too many open files"}
    proof = prove([], interactive(LOG.model_copy(update=update)))
    assert (proof.result, proof.blame) == ("lost", "harness")


def test_a_proof_of_the_most_hostile_calls_is_read_again_and_says_what_it_left_out():
    key = "\x01" * 5_000
    told = {key: [MEMORY + PROMPT] * 20, "more": [{key: "[mem:zz] <memory>\n"}] * 20}
    tools = [[{"name": f"mcp__{n}_{m}{key}"} for m in range(MAX_NAMES + 5)] for n in range(MAX_LISTS + 3)]  # fmt: skip
    body = {"messages": [{"role": "user", "content": [told]}]}
    calls = [call(n, {**body, "tools": tools[n % len(tools)]}) for n in range(60)]
    many = [call(n, body) for n in range(60, MAX_CALLS_TOLD + 10)]
    files = tuple((f"{n}/{key}/CLAUDE.md", ()) for n in range(MAX_STEERING + 2))
    proof = prove([*calls, *many], replace(expected(), steering=files))
    assert InjectionProof.parse_canonical(proof.canonical(), where="proof") == proof
    counts = [rest.count if rest else 0 for rest in (proof.more_tool_lists, proof.more_calls, proof.more_steering)]  # fmt: skip
    assert counts == [4, 10, 2]
    assert proof.more_foreign is not None
    assert proof.calls[0].more_slices == 20 - MAX_SLICES
    assert proof.tool_lists[0][-1].startswith("and 5 more, sha256 ")


def test_the_digest_of_what_is_left_out_changes_with_it():
    def digest(word: str) -> Rest | None:
        bodies = [chat(("user", PROMPT), ("user", f"[mem:{n} {word if n == 150 else ''}")) for n in range(151)]  # fmt: skip
        odd = [{**body, "tools": [{"name": f"mcp__{word}" if n == 150 else "bash"}]} for n, body in enumerate(bodies)]  # fmt: skip
        return prove([call(n, body) for n, body in enumerate(odd)], expected("")).more_foreign

    assert digest("a") != digest("b")


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

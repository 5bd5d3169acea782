"""Promise: every agent's events come to one form; broken, missing and endless ones are a named finding."""

from __future__ import annotations

import json
from typing import Any

import pytest

from orchestrator.agents.mini import MARK
from orchestrator.agents.own_usage import own_usage
from orchestrator.agents.transcripts.atif import to_atif
from orchestrator.agents.transcripts.building import MAX_EVENTS, MAX_TEXT_CHARS, paths_of_command
from orchestrator.agents.transcripts.reading import FORMATS, metrics_of, transcript_of


def lines(*events: object) -> bytes:
    return b"".join(json.dumps(event).encode() + b"\n" for event in events)


CLAUDE = lines(
    {"type": "system", "subtype": "ui_invalidate"},
    {"type": "system", "subtype": "init", "model": "m-1", "claude_code_version": "2.1.332"},
    {
        "type": "assistant",
        "message": {
            "id": "m0",
            "content": [
                {"type": "text", "text": "As [mem:a1] says."},
                {"type": "tool_use", "id": "t0", "name": "Read", "input": {"file_path": "/work/src/a.py"}},
            ],
        },
    },
    {"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": "t0", "content": "x", "is_error": True}]}},
    {"type": "result", "subtype": "success", "is_error": False, "terminal_reason": "completed", "usage": {"input_tokens": 5, "output_tokens": 2}},
)  # fmt: skip
CODEX = lines(
    {"type": "thread.started"},
    {"type": "item.completed", "item": {"id": "i0", "type": "agent_message", "text": "As [mem:a1] says."}},
    {"type": "item.completed", "item": {"id": "i1", "type": "command_execution", "command": "/usr/bin/bash -lc 'cat src/a.py'", "exit_code": 1, "aggregated_output": "x"}},
    {"type": "turn.completed", "usage": {"input_tokens": 7, "cached_input_tokens": 2, "output_tokens": 2}},
)  # fmt: skip
MINI = b"text for people\n" + f"\n{MARK}\n".encode() + json.dumps(
    {
        "info": {"mini_version": "2.4.6", "exit_status": "Submitted"},
        "messages": [
            {"role": "user", "content": "task"},
            {
                "role": "assistant",
                "content": "As [mem:a1] says.",
                "tool_calls": [{"id": "c0", "function": {"name": "bash", "arguments": '{"command": "cat src/a.py"}'}}],
            },
            {"role": "tool", "tool_call_id": "c0", "content": "<returncode>1</returncode>"},
        ],
    }
).encode()  # fmt: skip
OUTPUTS = {"claude-code": CLAUDE, "codex": CODEX, "mini-swe-agent": MINI}


@pytest.mark.parametrize("agent", OUTPUTS)
def test_message_call_and_output_of_each_agent_come_to_the_same_form(agent):
    found = transcript_of(agent, OUTPUTS[agent], 0)
    assert [e.kind for e in found.events] == ["message", "tool_call", "tool_output"]
    assert found.events[1].paths_read == ("src/a.py",)
    assert (found.events[2].failed, found.events[2].call_id) == (True, found.events[1].call_id)
    assert (found.turns, found.broken, found.stop_reason is None) == (1, 0, False)


@pytest.mark.parametrize(
    ("agent", "event"),
    [
        ("codex", {"type": "turn.completed", "usage": {"input_tokens": 9, "cached_input_tokens": 2, "cache_write_input_tokens": 3, "output_tokens": 4}}),
        ("claude-code", {"type": "result", "usage": {"input_tokens": 1}, "modelUsage": {"m": {"inputTokens": 4, "outputTokens": 2}}}),
    ],
)  # fmt: skip
def test_the_usage_of_a_transcript_is_the_agents_own_figure_of_the_report(agent, event):
    output = json.dumps(event).encode() + b"\n"
    own = own_usage(output + output)
    assert own is not None
    assert transcript_of(agent, output + output, 0).usage == own.usage


def test_usage_classes_stay_disjoint():
    usage = transcript_of("codex", CODEX, 0).usage
    assert usage is not None
    assert (usage.input, usage.cache_read, usage.output) == (5, 2, 2)


@pytest.mark.parametrize("agent", FORMATS)
@pytest.mark.parametrize(
    "output",
    [
        b"",
        b"\xff\xfe not text",
        b"[1, 2]\nnull\n",
        b'{"type": "assistant", "message": 5}\n{"type": "item.completed", "item": []}\n',
        b'{"type": "result", "usage": {"input_tokens": -3, "output_tokens": "many"}}\n',
        b'{"type": "assistant", "message": {"content": [{"type": "tool_use", "input": "x", "name": 4}]}}\n',
        b"{" * 100_000,
        b'{"a": 1, "a": 2}\n',
        b'{"kind": "message", "text": "\\ud800"}\n',
    ],
)
def test_output_that_is_no_event_stream_is_a_transcript_and_no_crash(agent, output):
    found = transcript_of(agent, output, 0)
    assert found.exit_code == 0
    assert found.canonical()


def test_lines_that_are_no_events_are_counted():
    assert transcript_of("codex", b"warning: x\n" + CODEX, 0).broken == 1
    assert transcript_of("mini-swe-agent", b"Traceback", 1).broken == 1


def test_endless_events_and_texts_are_cut_and_said_so():
    many = lines(*({"kind": "message", "text": "y" * (MAX_TEXT_CHARS + 1)} for _ in range(MAX_EVENTS + 5)))  # fmt: skip
    found = transcript_of("chat", many, 0)
    assert (len(found.events), found.events_cut) == (MAX_EVENTS, True)
    assert (len(found.events[0].text), found.events[0].text_cut) == (MAX_TEXT_CHARS, True)


@pytest.mark.parametrize("agent", OUTPUTS)
def test_the_first_relevant_file_and_cited_memory_are_found(agent):
    found = metrics_of(
        transcript_of(agent, OUTPUTS[agent], 0),
        relevant=("src/a.py",),
        injected=("a1", "b2"),
        added="# see [mem:b2] and [mem:zz]",
    )
    assert found.first_relevant_file == "src/a.py"
    assert found.events_to_first_relevant_file == 1
    assert (found.cited_in_messages, found.cited_in_diff) == (("a1",), ("b2",))
    assert found.cited_unknown == ("zz",)


def test_an_action_that_fails_again_word_for_word_is_counted_once_each_time():
    again = [
        {"kind": "tool_call", "text": "make"},
        {"kind": "tool_output", "text": "exit 2\nno"},
    ]
    other = [{"kind": "tool_call", "text": "ls"}, {"kind": "tool_output", "text": "exit 0\n"}]
    found = transcript_of("chat", lines(*again, *other, *again, *again), 0)
    metrics = metrics_of(found, relevant=("x",), injected=(), added="")
    assert metrics.repeated_failed_action_count == 2


@pytest.mark.parametrize(
    ("command", "read", "written"),
    [
        ("cat src/a.py", ("src/a.py",), ()),
        ("echo x > src/a.py", ("src/a.py",), ("src/a.py",)),
        ("sed -i 2d /work/src/a.py", ("src/a.py",), ("src/a.py",)),
        ("git apply - <<'E'\n+++ b/src/b.py\nE\n", (), ("src/b.py",)),
        ("echo 'unclosed", (), ()),
    ],
)
def test_paths_of_a_command_are_read_off_its_text(command, read, written):
    found = paths_of_command(command)
    assert set(read) <= set(found[0])
    assert set(written) == set(found[1])


def test_the_exchange_format_keeps_calls_with_their_outputs():
    document: Any = to_atif(transcript_of("codex", CODEX, 0), session_id="t/1")
    (step,) = document["steps"]
    assert step["tool_calls"][0]["tool_call_id"] == "i1"
    assert step["observation"]["results"][0]["source_call_id"] == "i1"


@pytest.mark.parametrize(("status", "failed"), [("connected", False), ("pending", True)])
def test_what_claude_code_says_of_its_tool_servers_is_kept(status, failed):
    event = {"type": "system", "subtype": "init", "mcp_servers": [{"name": "memory", "status": status}, 3]}  # fmt: skip
    events = transcript_of("claude-code", json.dumps(event).encode(), 0).events
    assert next((e.kind, e.text, e.failed) for e in events) == ("note", f"server memory: {status}", failed)  # fmt: skip

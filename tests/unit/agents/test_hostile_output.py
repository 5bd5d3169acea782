"""Promise: nothing that an agent prints stops, hangs or fails the reading of its run."""

from __future__ import annotations

import json
import resource
import subprocess
import sys

import pytest

from orchestrator.agents.mini import MARK
from orchestrator.agents.transcripts.building import MAX_PATH_CHARS, paths_of_command
from orchestrator.agents.transcripts.reading import FORMATS, MAX_TRANSCRIPT_BYTES, transcript_of

CPU_S = 20
READ = "import sys; from orchestrator.agents.transcripts.reading import transcript_of as t; print(len(t(sys.argv[1], sys.stdin.buffer.read(), 0).events))"
SEARCH = "import sys; from orchestrator.agents.transcripts.building import _PATH, paths_of_command as p; p(sys.argv[1] * 1_000_000); _PATH.findall(sys.argv[1] * 1_000_000)"


def command_of(agent: str, command: str) -> bytes:
    """Returns an output of an agent that ran one command."""
    if agent == "codex":
        item = {"type": "command_execution", "command": command}
        return json.dumps({"type": "item.completed", "item": item}).encode()
    if agent == "claude-code":
        use = {"type": "tool_use", "name": "Bash", "input": {"command": command}}
        return json.dumps({"type": "assistant", "message": {"content": [use]}}).encode()
    if agent == "mini-swe-agent":
        call = {"function": {"name": "bash", "arguments": json.dumps({"command": command})}}
        message = {"role": "assistant", "content": "", "tool_calls": [call]}
        return f"\n{MARK}\n".encode() + json.dumps({"messages": [message]}).encode()
    return json.dumps({"kind": "tool_call", "text": command}).encode()


def ended_of(agent: str, digits: str) -> bytes:
    """Returns an output of an agent that was told an exit code."""
    if agent == "codex":
        item = b'{"type": "command_execution", "command": "x", "exit_code": %s}' % digits.encode()
        return b'{"type": "item.completed", "item": %s}' % item
    if agent == "claude-code":
        return b'{"type": "result", "usage": {"input_tokens": %s}}' % digits.encode()
    if agent == "mini-swe-agent":
        message = {"role": "tool", "content": f"<returncode>{digits}</returncode>"}
        return f"\n{MARK}\n".encode() + json.dumps({"messages": [message]}).encode()
    return json.dumps({"kind": "tool_output", "text": f"exit {digits}\n"}).encode()


def at_most_cpu() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))


@pytest.mark.parametrize("agent", FORMATS)
def test_the_work_of_reading_a_long_command_grows_with_its_length_alone(agent):
    """4 MiB of one letter, which a pattern that goes back would read for hours."""
    output = command_of(agent, "a" * (4 * 1024 * 1024 - 1000))
    done = subprocess.run(
        [sys.executable, "-c", READ, agent],
        check=False,
        input=output,
        preexec_fn=at_most_cpu,
        capture_output=True,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert int(done.stdout) >= 1


@pytest.mark.parametrize("text", ["a", "a.", "a/", "/", "a//", ".a", "> ", "a.a", "\n+++ b/", "'"])
def test_no_repetition_makes_the_search_for_paths_go_back(text):
    done = subprocess.run([sys.executable, "-c", SEARCH, text], check=False, preexec_fn=at_most_cpu)
    assert done.returncode == 0


@pytest.mark.parametrize("agent", FORMATS)
@pytest.mark.parametrize("digits", ["9" * 30, "9" * 5_000, "-" + "9" * 16, "9" * 11, "٣" * 3])
def test_a_number_that_no_program_has_is_none(agent, digits):
    found = transcript_of(agent, ended_of(agent, digits), 0)
    assert {event.exit_code for event in found.events} <= {None}
    assert found.canonical()


@pytest.mark.parametrize("agent", ["chat", "codex", "mini-swe-agent"])
def test_an_exit_code_is_kept(agent):
    found = transcript_of(agent, ended_of(agent, "3"), 0)
    assert (found.events[-1].exit_code, found.events[-1].failed) == (3, True)


def test_a_transcript_that_no_document_may_hold_is_the_empty_one():
    line = json.dumps({"kind": "message", "text": "\x01" * 4_000}).encode() + b"\n"
    found = transcript_of("chat", line * 4_000, 0)
    assert (found.format, found.events, found.broken) == ("none", (), 4_000)
    assert len(found.canonical()) < MAX_TRANSCRIPT_BYTES


def test_a_value_that_its_field_cannot_hold_ends_no_reading(monkeypatch):
    from orchestrator.agents.transcripts import reading

    def reader(agent: str, output: bytes, exit_code: int | None) -> object:
        return int("x")

    monkeypatch.setitem(reading.READERS, "lines", reader)
    assert transcript_of("chat", b"one\ntwo\n", 0).broken == 2


def test_paths_as_long_as_texts_are_no_paths():
    path = "a/" * MAX_PATH_CHARS + "b"
    found = transcript_of("chat", command_of("chat", f"echo > {path}"), 0)
    assert (found.events[0].paths_read, found.events[0].paths_written) == ((), ())
    assert paths_of_command("cat src/a.py /b/c x-1.txt")[0] == ("src/a.py", "/b/c", "x-1.txt")

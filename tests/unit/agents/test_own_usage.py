"""Promise: an agent's own figures are read from its own words only, and never from something else."""

from __future__ import annotations

import json

import pytest

from orchestrator.agents.own_usage import own_usage
from orchestrator.model.spending import OwnUsage
from orchestrator.model.usage import Usage

CODEX = {
    "type": "turn.completed",
    "usage": {
        "input_tokens": 100,
        "cached_input_tokens": 60,
        "output_tokens": 7,
        "reasoning_output_tokens": 3,
    },
}
CLAUDE = {
    "type": "result",
    "usage": {"input_tokens": 1, "output_tokens": 1},
    "modelUsage": {
        "a": {"inputTokens": 10, "cacheReadInputTokens": 5, "outputTokens": 2},
        "b": {"inputTokens": 1, "cacheCreationInputTokens": 4, "outputTokens": 1},
    },
}
OPENCODE = {
    "type": "step_finish",
    "part": {"tokens": {"input": 8, "output": 2, "cache": {"read": 1, "write": 3}}},
}


def lines(*events: object) -> bytes:
    return b"".join(json.dumps(event).encode() + b"\n" for event in events)


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (
            lines(CODEX, {"type": "turn.started"}, CODEX),
            OwnUsage(
                words="codex",
                usage=Usage(input=80, cache_read=120, output=14, reasoning=6),
            ),
        ),
        (
            b"a warning\n" + lines(CLAUDE),
            OwnUsage(
                words="claude_code",
                usage=Usage(input=11, cache_read=5, cache_write=4, output=3),
            ),
        ),
        (
            lines(OPENCODE, OPENCODE),
            OwnUsage(
                words="opencode",
                usage=Usage(input=16, cache_read=2, cache_write=6, output=4),
            ),
        ),
    ],
)
def test_each_agents_words_are_understood(output, expected):
    assert own_usage(output) == expected


@pytest.mark.parametrize(
    "output",
    [
        b"",
        b"\xff\xfe{}",
        b'{"type": "turn.completed"',
        lines({"type": "turn.completed", "usage": None}),
        lines({"type": "result"}),
        lines({"type": "step_finish", "part": 3}),
        lines(["turn.completed"]),
        lines(CODEX, CLAUDE),
        b'{"type":"turn.completed","type":"turn.completed","usage":{"input_tokens":1}}\n',
        b"{" * 100_000,
    ],
)
def test_anything_else_gives_no_figures(output):
    assert own_usage(output) is None


@pytest.mark.parametrize("lie", [-1, 2**50, True, "7", None, 1.5, [1]])
def test_an_impossible_count_is_no_count(lie):
    found = own_usage(lines({"type": "turn.completed", "usage": {"input_tokens": lie}}))
    assert found == OwnUsage(words="codex", usage=Usage())


def test_figures_whose_sum_no_document_could_hold_are_none_at_all():
    huge = {"type": "turn.completed", "usage": {"input_tokens": 2**40}}
    assert own_usage(lines(*[huge] * 9000)) is None

"""Promise: a stranger knows what each stage keeps; an arm of tools keeps what its server was asked, and no other does."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from orchestrator.audit.artifacts import check_artifacts
from orchestrator.model.record import Stage
from orchestrator.model.toolcalls import TOOL_LOG

OF_ACT = ("output", "traffic", "injection-proof", "transcript")


def attempted(delivery: str, *kept: str) -> Any:
    def require(what: str, expected: object, found: object) -> None:
        assert expected == found, what

    done = SimpleNamespace(artifacts=[SimpleNamespace(name=name) for name in kept])
    agent = SimpleNamespace(model="m-1")
    return SimpleNamespace(
        record=SimpleNamespace(stages={Stage.ACT: done}),
        plan=SimpleNamespace(gateway=object(), agent=lambda _: agent),
        trial=SimpleNamespace(agent="codex"),
        condition=SimpleNamespace(gives_tools=delivery == "mcp"),
        require=require,
    )


def test_an_arm_of_tools_keeps_the_log_of_its_server():
    check_artifacts(attempted("mcp", *OF_ACT, TOOL_LOG))
    check_artifacts(attempted("prompt_prefix", *OF_ACT))


@pytest.mark.parametrize(
    ("delivery", "kept"), [("mcp", OF_ACT), ("prompt_prefix", (*OF_ACT, TOOL_LOG))]
)
def test_a_log_that_is_missing_or_of_no_server_is_refused(delivery, kept):
    with pytest.raises(AssertionError, match="artifacts of act"):
        check_artifacts(attempted(delivery, *kept))

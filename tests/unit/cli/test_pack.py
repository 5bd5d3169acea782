"""Promise: `memtrial pack` accepts the one outcome that sound tasks have and names the task in any other."""

from __future__ import annotations

from typing import Any

import pytest

from orchestrator.cli.pack import unexpected
from orchestrator.model.report import ArmRow, Count, RunReport, TrialRow
from orchestrator.model.verdict import FailureReason

SOUND = {
    "oracle": ("resolved", None, 5, 2),
    "noop": ("unresolved", FailureReason.MISSING_MEMORY, 0, 0),
    "follower": ("unresolved", FailureReason.MISSING_MEMORY, 3, 0),
}


def partly(document: Any, **fields: Any) -> Any:
    """Only what is looked at; the other fields of a report are not of this test."""
    return document.model_construct(**fields)


def report(agent: str = "", **changes: Any) -> Any:
    """A run of one task with three capability and two memory tests, with changes to one agent's row."""
    arms: list[Any] = []
    trials: list[Any] = []
    for name, (status, reason, passed, memory) in SOUND.items():
        found: dict[str, Any] = {
            "status": status,
            "reason": reason,
            "passed": passed,
            "memory": memory,
            "base": 9,
        }
        found |= changes if name == agent else {}
        trials.append(
            partly(
                TrialRow,
                task_id="some-task",
                agent=name,
                status=found["status"],
                failure_reason=found["reason"],
                why="so",
            )
        )
        arms.append(
            partly(
                ArmRow,
                agent=name,
                condition_id="no_memory",
                fail_to_pass=Count(passed=found["passed"], of=5),
                fail_to_pass_memory=Count(passed=found["memory"], of=2),
                pass_to_pass=Count(passed=found["base"], of=9),
            )
        )
    return partly(RunReport, arms=tuple(arms), trials=tuple(trials))


def test_a_sound_pack_is_accepted() -> None:
    assert unexpected(report()) == []


@pytest.mark.parametrize(
    ("agent", "changes", "says"),
    [
        pytest.param("oracle", {"status": "unresolved"}, "some-task", id="reference-fails"),
        pytest.param("oracle", {"status": "no_verdict"}, "some-task", id="no-verdict"),
        pytest.param("noop", {"status": "resolved"}, "some-task", id="solved-without-a-change"),
        pytest.param("noop", {"passed": 1}, "no change", id="vacuous-hidden-test"),
        pytest.param("follower", {"status": "resolved"}, "some-task", id="guessable"),
        pytest.param(
            "follower",
            {"reason": FailureReason.WRONG_FILE_MODIFIED},
            "some-task",
            id="natural-patch-breaks-rules",
        ),
        pytest.param("follower", {"passed": 2}, "natural patches", id="natural-patch-unfit"),
        pytest.param("follower", {"base": 8}, "base suite", id="natural-patch-breaks-the-base"),
        pytest.param("noop", {"base": 8}, "base suite", id="base-suite-red-from-the-start"),
    ],
)
def test_any_other_outcome_is_named(agent: str, changes: dict[str, Any], says: str) -> None:
    assert any(says in line for line in unexpected(report(agent, **changes)))

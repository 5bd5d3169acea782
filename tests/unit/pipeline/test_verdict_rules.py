"""Promise: `resolved` cannot be set against the facts, and no verdict comes from empty tests."""

from typing import Any

import pytest
from pydantic import ValidationError

from orchestrator.model.verdict import Tally, Verdict

FULL = Tally(expected=1, passed=1)
GOOD: dict[str, Any] = {
    "task_id": "t",
    "condition_id": "c",
    "agent": "a",
    "epoch": 1,
    "tree": "0" * 40,
    "diff_sha256": "0" * 64,
    "injection_sha256": "0" * 64,
    "within_limits": True,
    "compiled": True,
    "reports_ok": True,
    "fail_to_pass_capability": FULL,
    "fail_to_pass_memory": FULL,
    "pass_to_pass": FULL,
    "paths_ok": True,
    "patterns_ok": True,
    "violations": (),
    "resolved": True,
    "failure_reason": None,
    "facts_delivered": (),
    "facts_missing": (),
    "diagnostic": True,
}


def test_a_sound_verdict_is_accepted():
    assert Verdict(**GOOD).resolved


@pytest.mark.parametrize(
    "change",
    [
        {"paths_ok": False},
        {"patterns_ok": False},
        {"compiled": False},
        {"reports_ok": False},
        {"within_limits": False},
        {"fail_to_pass_memory": Tally(expected=1, passed=0)},
        {"pass_to_pass": Tally(expected=2, passed=1)},
        {"fail_to_pass_capability": Tally(expected=0, passed=0)},
        {"resolved": False},
    ],
    ids=str,
)
def test_contradictions_are_impossible(change):
    with pytest.raises(ValidationError):
        Verdict(**{**GOOD, **change})

"""Promise: the sentence about a trial names what failed and blames no fact that cannot have mattered."""

from __future__ import annotations

import pytest

from orchestrator.model.verdict import FailureReason, Tally, Verdict, Violation
from orchestrator.report.explain import why
from tests.unit.pipeline.test_verdict_rules import FULL, GOOD

NONE_PASSED = Tally(expected=1, passed=0, missing=("m",))


def failed(**change) -> Verdict:
    reason = {"resolved": False, "failure_reason": FailureReason.TEST_FAILURE}
    return Verdict(**{**GOOD, **reason, **change})


def test_a_missing_fact_is_not_blamed_when_all_memory_tests_passed():
    verdict = failed(pass_to_pass=NONE_PASSED, fail_to_pass_memory=FULL, facts_missing=("f1",))
    assert why(verdict) == "base suite 0/1"


def test_a_missing_fact_is_named_when_a_memory_test_failed():
    verdict = failed(fail_to_pass_memory=NONE_PASSED, facts_missing=("f1",))
    assert why(verdict) == "memory tests 0/1; fact f1 was not in the injected text"


def test_delivered_facts_are_said_when_a_memory_test_failed_all_the_same():
    verdict = failed(fail_to_pass_memory=NONE_PASSED, facts_delivered=("f1",))
    assert why(verdict) == "memory tests 0/1; every fact was in the injected text"


def test_what_does_not_compile_blames_no_fact():
    verdict = failed(compiled=False, fail_to_pass_memory=NONE_PASSED, facts_missing=("f1",))
    assert why(verdict) == "the result does not compile"


def test_misconduct_is_all_that_is_said():
    seen = Violation(rule="misconduct", subject="canary-seen", detail="the output holds a canary")
    verdict = failed(violations=(seen,), fail_to_pass_memory=NONE_PASSED, facts_missing=("f1",))
    assert (
        why(verdict)
        == "misconduct (canary-seen): the output holds a canary; its tests were not run"
    )


def test_a_verdict_of_misconduct_cannot_be_resolved():
    seen = Violation(rule="misconduct", subject="canary-seen", detail="x")
    with pytest.raises(ValueError, match="no misconduct"):
        Verdict(**{**GOOD, "violations": (seen,)})

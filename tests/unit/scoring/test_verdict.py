"""The verdict: all facts apart, one reason by a fixed precedence, nothing passes that did not pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.core.errors import IntegrityError
from orchestrator.model.task import Key, PassToPass
from orchestrator.model.verdict import FailureReason, Verdict
from orchestrator.model.verdict import TestReport as Report
from orchestrator.scoring.junit import parse_junit
from orchestrator.scoring.verdict import tally

Judge = Callable[..., Verdict]
CAPABILITY, MEMORY = "tests.hidden.test_h::test_shape", "tests.hidden.test_h::test_parked"
STALE_DIFF = b"@@ -0,0 +1 @@\n+stalled\n"
OUTSIDE: dict[str, Any] = {
    "changes": (
        {
            "path": "setup.py",
            "status": "added",
            "old_mode": None,
            "new_mode": "100644",
            "blob": "0" * 40,
            "bytes": 1,
        },
    )
}
NOT_BUILT: dict[str, Any] = {
    "compiled": False,
    "compile_error": "SyntaxError",
    "tests": (),
    "exit_code": None,
}
TIMED_OUT: dict[str, Any] = {"timed_out": True, "tests": (), "exit_code": None}


def test_a_trial_that_did_everything_right_is_resolved_without_a_reason(judge: Judge) -> None:
    verdict = judge()
    assert (verdict.resolved, verdict.failure_reason, verdict.violations) == (True, None, ())


def test_a_fact_that_is_wrapped_over_lines_counts_as_delivered(judge: Judge) -> None:
    assert (judge().facts_delivered, judge().facts_missing) == (("f1",), ())


def test_without_memory_no_fact_is_delivered_whatever_its_matchers(judge: Judge, key: Key) -> None:
    fact = key.card.gold_facts[0].model_copy(update={"matchers": ("x*",)})
    loose = key.model_copy(update={"card": key.card.model_copy(update={"gold_facts": (fact,)})})
    assert judge(memory="", changed_key=loose).facts_missing == ("f1",)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"ended": "time_limit", "harvest": OUTSIDE}, FailureReason.TIMEOUT),
        ({"ended": "oom_killed"}, FailureReason.TIMEOUT),
        ({"ended": "output_limit"}, FailureReason.TIMEOUT),
        ({"hidden": TIMED_OUT}, FailureReason.TIMEOUT),
        (
            {"harvest": OUTSIDE, "base": NOT_BUILT, "hidden": NOT_BUILT},
            FailureReason.WRONG_FILE_MODIFIED,
        ),
        ({"harvest": OUTSIDE}, FailureReason.WRONG_FILE_MODIFIED),
        ({"base": NOT_BUILT, "hidden": NOT_BUILT, "memory": ""}, FailureReason.COMPILE_FAILURE),
        ({"hidden_passed": (CAPABILITY,), "memory": ""}, FailureReason.MISSING_MEMORY),
        (
            {"hidden_passed": (CAPABILITY,), "memory": "- [mem:m0] else\n"},
            FailureReason.MISSING_MEMORY,
        ),
        ({"hidden_passed": (CAPABILITY,)}, FailureReason.IGNORED_MEMORY),
        (
            {
                "hidden_passed": (CAPABILITY,),
                "diff": STALE_DIFF,
                "memory": "the text is parked, once stalled",
            },
            FailureReason.STALE_MEMORY_FOLLOWED,
        ),
        (
            {"hidden_passed": (CAPABILITY,), "diff": STALE_DIFF, "memory": "the text is stalled"},
            FailureReason.STALE_MEMORY_FOLLOWED,
        ),
        ({"hidden_passed": (CAPABILITY,), "diff": STALE_DIFF}, FailureReason.IGNORED_MEMORY),
        (
            {"hidden_passed": (CAPABILITY,), "diff": STALE_DIFF, "memory": ""},
            FailureReason.MISSING_MEMORY,
        ),
        ({"hidden_passed": (MEMORY,)}, FailureReason.TEST_FAILURE),
        ({"base_passed": ("tests.test_old::test_a",)}, FailureReason.TEST_FAILURE),
        ({"diff": b"@@ -0,0 +1 @@\n+eval(x)\n"}, FailureReason.TEST_FAILURE),
    ],
)
def test_the_first_reason_that_applies_is_given(
    judge: Judge, changes: dict[str, Any], reason: FailureReason
) -> None:
    verdict = judge(**changes)
    assert (verdict.resolved, verdict.failure_reason) == (False, reason)


def test_base_tests_count_from_the_run_without_hidden_tests_and_hidden_ones_from_the_other(
    judge: Judge,
) -> None:
    verdict = judge(
        base_passed=(CAPABILITY, MEMORY),
        hidden_passed=("tests.test_old::test_a", "tests.test_old::test_b"),
    )
    assert [
        t.passed
        for t in (
            verdict.pass_to_pass,
            verdict.fail_to_pass_capability,
            verdict.fail_to_pass_memory,
        )
    ] == [0, 0, 0]


@pytest.mark.parametrize(
    ("together", "apart", "lost"),
    [
        (("test_a", "test_b"), ("test_a",), ()),
        (("test_a", "test_b"), (), ("test_a",)),
        (("test_b",), ("test_a",), ("test_a",)),
        (("test_a",), ("test_a", "test_b"), ("test_b",)),
    ],
)
def test_a_base_test_that_is_examined_apart_must_pass_in_both_runs(
    judge: Judge, key: Key, together: tuple[str, ...], apart: tuple[str, ...], lost: tuple[str, ...]
) -> None:
    verdict = judge(
        changed_key=key.model_copy(update={"apart": ("tests.test_old::test_a",)}),
        base_passed=tuple(f"tests.test_old::{name}" for name in together),
        hidden_passed=(CAPABILITY, MEMORY, *(f"tests.test_old::{name}" for name in apart)),
    )
    assert verdict.pass_to_pass.missing == tuple(f"tests.test_old::{name}" for name in lost)
    assert verdict.resolved == (not lost)


def test_a_broken_build_names_every_test_as_missing_and_gives_one_reason(judge: Judge) -> None:
    verdict = judge(base=NOT_BUILT, hidden=NOT_BUILT)
    assert verdict.pass_to_pass.missing == ("tests.test_old::test_a", "tests.test_old::test_b")
    assert verdict.failure_reason is FailureReason.COMPILE_FAILURE


@pytest.mark.parametrize(
    "changes",
    [
        {"harvest": {"diff_sha256": "1" * 64}},
        {"base": {"phase": "fail_to_pass"}},
        {"hidden": {"phase": "pass_to_pass"}},
    ],
)
def test_inputs_that_do_not_belong_together_are_refused(
    judge: Judge, changes: dict[str, Any]
) -> None:
    with pytest.raises(IntegrityError, match="expected key, brief, diff and reports"):
        judge(**changes)


def test_another_tasks_key_is_refused(judge: Judge, key: Key) -> None:
    with pytest.raises(IntegrityError, match="other"):
        judge(changed_key=key.model_copy(update={"task_id": "other"}))


def test_a_flood_of_violations_is_cut_in_the_verdict_but_still_decides(judge: Judge) -> None:
    flood = tuple(dict(OUTSIDE["changes"][0], path=f"x{i}") for i in range(1000))
    verdict = judge(harvest={"changes": flood})
    assert (len(verdict.violations), verdict.paths_ok) == (200, False)


def test_the_same_inputs_give_the_same_bytes(judge: Judge) -> None:
    assert judge().canonical() == judge().canonical()


def report_of(xml: bytes) -> Report:
    return Report(
        runner="pytest",
        phase="fail_to_pass",
        compiled=True,
        timed_out=False,
        exit_code=1,
        tests=parse_junit(xml),
    )


def suite(cases: bytes) -> bytes:
    """The cases as one suite with the figures that pytest gives."""
    tests, failures, errors, skipped = (
        cases.count(word) for word in (b"<testcase", b"<failure", b"<error", b"<skipped")
    )
    figures = b'tests="%d" failures="%d" errors="%d" skipped="%d"' % (
        tests,
        failures,
        errors,
        skipped,
    )
    return b"<testsuites><testsuite " + figures + b">" + cases + b"</testsuite></testsuites>"


def test_missing_skipped_and_failed_tests_and_other_counts_are_not_passed() -> None:
    cases = b'<testcase classname="m" name="p"/><testcase classname="m" name="s"><skipped/></testcase><testcase classname="m" name="f"><failure/></testcase><testcase classname="m" name="d"/><testcase classname="m" name="d"/>'
    report = report_of(suite(cases))
    found = tally(tuple(PassToPass(id=f"m::{name}") for name in "psfdx"), report)
    assert (found.expected, found.passed, found.failed, found.missing) == (
        5,
        1,
        ("m::d", "m::f", "m::s"),
        ("m::x",),
    )


def test_an_id_that_occurs_as_often_as_pinned_passes() -> None:
    report = report_of(
        suite(b'<testcase classname="m" name="d"/><testcase classname="m" name="d"/>')
    )
    assert tally((PassToPass(id="m::d", n=2),), report).passed == 1


PINNED = {"a": 1, "b": 2, "c": 1}
_CASE = st.tuples(
    st.sampled_from(["a", " a", "a ", "b", "c", "C", "d"]),
    st.sampled_from(
        [
            "",
            "<failure/>",
            "<error/>",
            "<skipped/>",
            "<system-out>a passed</system-out>",
            "<properties/>",
            "<x/>",
            "<testcase classname='m' name='a'/>",
        ]
    ),
)


@settings(deadline=None, max_examples=500)
@given(st.lists(_CASE, max_size=8), st.booleans(), st.integers(0, 40))
def test_a_tally_is_complete_only_if_the_report_truly_holds_every_pinned_pass(
    cases: list[tuple[str, str]], cut: bool, bytes_cut: int
) -> None:
    body = "".join(
        f"<testcase classname='m' name='{name}'>{inner}</testcase>" for name, inner in cases
    )
    xml = suite(body.encode())
    found = tally(
        tuple(PassToPass(id=f"m::{name}", n=n) for name, n in PINNED.items()),
        report_of(xml[: len(xml) - bytes_cut] if cut else xml),
    )
    harmless = {"", "<system-out>a passed</system-out>", "<properties/>"}
    whole = not (cut and bytes_cut) and not any("testcase" in inner for _, inner in cases)
    truly = whole and all(
        [inner in harmless for other, inner in cases if other.strip() == name] == [True] * n
        for name, n in PINNED.items()
    )
    assert (found.passed == found.expected) == truly

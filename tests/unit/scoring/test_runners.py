"""Promise: a report counts only if runner, report and seal agree, and holds this suite's tests alone."""

from __future__ import annotations

import dataclasses
from xml.sax.saxutils import quoteattr

import pytest

from orchestrator.model.task import Key, Runner
from orchestrator.model.verdict import Seal
from orchestrator.protocols import VerifyOutcome
from orchestrator.scoring.runners import Exam, exam_for, normalise
from orchestrator.scoring.seal import draw_seal, pytest_seal

SEAL = Seal(phase="pass_to_pass", nonce="0123456789abcdef" * 2)
RUNNER = Runner(kind="pytest", source_roots=("src",), test_paths=("tests",), timeout_s=60)
OLD = (("tests.test_old::test_a", "pass"), ("tests.test_old::test_b", "pass"))


@pytest.fixture
def exam(key: Key) -> Exam:
    return exam_for(RUNNER, key, SEAL)


def drawn(exam: Exam) -> tuple[tuple[str, str], ...]:
    return tuple(pair for file in exam.seal_files for pair in file.expected)


def junit(tests: tuple[tuple[str, str], ...]) -> bytes:
    cases = ""
    for name, status in tests:
        classname, _, test = name.partition("::")
        inner = {"pass": "", "fail": "<failure/>", "error": "<error/>", "skip": "<skipped/>"}
        cases += f"<testcase classname={quoteattr(classname)} name={quoteattr(test)}>{inner[status]}</testcase>"
    counted = {word: cases.count(f"<{word}/>") for word in ("failure", "error", "skipped")}
    figures = f'tests="{len(tests)}" failures="{counted["failure"]}" errors="{counted["error"]}" skipped="{counted["skipped"]}"'
    return f"<testsuites><testsuite {figures}>{cases}</testsuite></testsuites>".encode()


def outcome(report: bytes | None, *, exit_code: int | None = 1, timed_out: bool = False):
    return VerifyOutcome(
        compiled=True,
        compile_error=None,
        timed_out=timed_out,
        exit_code=exit_code,
        report=report,
        log=b"",
    )


def test_a_whole_report_counts_without_its_seal(exam):
    report = normalise(outcome(junit((*drawn(exam), *OLD))), exam)
    assert [(test.id, test.status) for test in report.tests] == list(OLD)
    assert report.faults == ()


@pytest.mark.parametrize("exit_code", [0, 2, 3, 4, 5, 137, None])
def test_a_session_that_ends_as_none_with_a_failing_test_counts_nothing(exam, exit_code):
    report = normalise(outcome(junit((*drawn(exam), *OLD)), exit_code=exit_code), exam)
    assert ([f.kind for f in report.faults], report.tests) == (["exit_status"], ())


def test_a_process_of_the_tests_that_outlives_them_makes_the_report_worthless(exam):
    seen = dataclasses.replace(outcome(junit((*drawn(exam), *OLD))), left_running=1)
    assert [f.kind for f in normalise(seen, exam).faults] == ["left_running"]


def test_no_report_is_named(exam):
    assert [f.kind for f in normalise(outcome(None), exam).faults] == ["no_report"]


def test_a_timed_out_session_counts_nothing(exam):
    report = normalise(outcome(junit((*drawn(exam), *OLD)), timed_out=True), exam)
    assert (report.tests, report.timed_out) == ((), True)


def test_a_report_without_this_verifications_seal_counts_nothing(exam, key):
    other = exam_for(RUNNER, key, draw_seal("pass_to_pass"))
    for tests in (OLD, (*drawn(other), *OLD), (*drawn(exam)[1:], *OLD), (*drawn(exam)[:-1], *OLD)):
        report = normalise(outcome(junit(tests)), exam)
        assert ([f.kind for f in report.faults], report.tests) == (["seal"], ())


def test_a_report_that_calls_everything_passed_counts_nothing(exam):
    tests = tuple((name, "pass") for name, _ in (*drawn(exam), *OLD))
    assert [f.kind for f in normalise(outcome(junit(tests)), exam).faults] == ["seal"]


def test_a_drawn_test_that_is_reported_twice_breaks_the_seal(exam):
    tests = (*drawn(exam), drawn(exam)[0], *OLD)
    assert [f.kind for f in normalise(outcome(junit(tests)), exam).faults] == ["seal"]


def test_tests_that_the_suite_does_not_have_are_named(exam):
    report = normalise(
        outcome(junit((*drawn(exam), *OLD, ("tests.test_new::test_x", "pass")))), exam
    )
    assert [f.kind for f in report.faults] == ["unexpected_tests"]
    assert "tests.test_new::test_x" in report.faults[0].detail


def test_a_file_that_cannot_be_collected_is_a_missing_test_and_no_fault(exam):
    report = normalise(outcome(junit((*drawn(exam), ("::tests.test_old", "error")))), exam)
    assert (report.faults, [t.status for t in report.tests]) == ((), ["error"])


def test_each_drawing_has_both_outcomes_and_names_of_its_own():
    first, second = (pytest_seal(draw_seal("fail_to_pass")) for _ in range(2))
    for files in (first, second):
        for file in files:
            assert {status for _, status in file.expected} == {"pass", "fail"}
    names = [name for files in (first, second) for file in files for name, _ in file.expected]
    assert len(set(names)) == len(names)


def test_the_same_nonce_draws_the_same_seal():
    assert pytest_seal(SEAL) == pytest_seal(SEAL)


def test_drawn_tests_come_to_what_was_drawn():
    for file in pytest_seal(draw_seal("pass_to_pass")):
        scope: dict[str, object] = {}
        exec(compile(file.text, file.path, "exec"), scope)
        for name, status in file.expected:
            test = scope[name.split("::")[1]]
            try:
                test()  # type: ignore[operator]
                found = "pass"
            except AssertionError:
                found = "fail"
            assert found == status


def test_hidden_tests_run_apart_from_the_candidate_unless_the_task_says_otherwise(key):
    seal = draw_seal("fail_to_pass")
    apart = exam_for(RUNNER, key, seal)
    card = key.card.model_copy(update={"boundary": "in_process"})
    together = exam_for(RUNNER, key.model_copy(update={"card": card}), seal)
    assert apart.candidate is not None
    assert together.candidate is None
    assert "/work" not in dict(apart.tests.environment)["PYTHONPATH"]


def test_the_pinned_base_tests_are_examined_with_the_hidden_ones_where_the_task_names_such(key):
    seal = draw_seal("fail_to_pass")
    apart = exam_for(RUNNER, key.model_copy(update={"apart": ("tests.test_old::test_a",)}), seal)
    alone = exam_for(RUNNER, key, seal)
    assert (apart.pinned_tests, alone.pinned_tests) == (("tests",), ())
    assert (apart.left_out, alone.left_out) == (("tests.test_old::test_b",), ())
    # The hidden file lies below: named as well, pytest would leave out its neighbours.
    assert [word for word in apart.tests.argv if word.startswith("tests")] == ["tests"]
    assert apart.may_report("tests.test_old::test_b")
    assert not alone.may_report("tests.test_old::test_b")


@pytest.mark.parametrize(
    "path",
    [
        "conftest.py",
        "src/pkg/conftest.py",
        "src/Conftest.py",
        "src/sitecustomize.py",
        "src/x.pth",
        "pyproject.toml",
        "setup.cfg",
        "tests/test_old.py",
        "tests/data/new.json",
        "src/evil.egg-info/entry_points.txt",
        "src/pkg/__pycache__/m.cpython-311.pyc",
        "src/usercustomize.py",
        "src/sitecustomize/__init__.py",
        "src/x-1.0.dist-info/entry_points.txt",
        "src/platform.py",
        "src/json/__init__.py",
    ],
)
def test_what_a_runner_reads_before_tests_is_protected(exam, path):
    import re

    assert any(re.fullmatch(rule, path.casefold()) for rule in exam.protected)


def test_sources_are_not_protected(exam):
    import re

    for path in ("src/pkg/__init__.py", "src/pkg/testing.py", "docs/tests.md"):
        assert not any(re.fullmatch(rule, path) for rule in exam.protected)

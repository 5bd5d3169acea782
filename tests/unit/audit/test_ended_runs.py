"""Promise: what a record says of how tests ended is taken if one run can come to it, and what hangs on it is told."""

from __future__ import annotations

import base64
import json
from collections import Counter

import pytest

from orchestrator.audit.regrade import PHASES
from orchestrator.audit.reports import check_ended, count_words, ended_as, told
from orchestrator.core.errors import IntegrityError
from orchestrator.core.places import fixtures_root
from orchestrator.model.verdict import Change, Harvest, LeftOut, ReportFault, TestReport
from orchestrator.protocols import VerifyOutcome
from orchestrator.scoring.believed import read_outcome
from orchestrator.scoring.runners import exam_for, normalise, restored_paths
from orchestrator.scoring.seal import draw_seal
from orchestrator.scoring.suites.cargo import BUILD_FAILED
from orchestrator.scoring.suites.values import VALUES
from orchestrator.sources.loader import load_task

TASK = load_task(fixtures_root(), "depotfeed-returns")
EXAM = exam_for(TASK.card.runner, TASK.key, draw_seal("pass_to_pass"))
SUITE = f"{TASK.card.runner.test_paths[0]}/test_more.py"
WHOLE = TestReport(
    runner="pytest", phase="pass_to_pass", compiled=True, timed_out=False, exit_code=1, tests=()
)
BROKEN = WHOLE.model_copy(update={"compiled": False, "compile_error": "line 1", "exit_code": None})
LATE = WHOLE.model_copy(update={"timed_out": True, "exit_code": None})


def harvest(*paths: str, left_out: tuple[LeftOut, ...] = ()) -> Harvest:
    return Harvest(
        pinned_tree="0" * 40,
        tree="1" * 40,
        diff_sha256="2" * 64,
        diff_bytes=1,
        diff_truncated=False,
        changes=tuple(
            Change(
                path=path, status="added", old_mode=None, new_mode="100644", blob="3" * 40, bytes=1
            )
            for path in paths
        ),
        left_out=left_out,
    )


def checked(report: TestReport, raw: bytes = b"", log: bytes = b"", paths=("src/a.py",)) -> None:
    check_ended("t", report, raw=raw, log=log, exam=EXAM, harvest=harvest(*paths))


@pytest.mark.parametrize(
    ("report", "raw", "log"),
    [(WHOLE, b"<x/>", b"said"), (WHOLE, b"", b""), (BROKEN, b"", b""), (LATE, b"", b"said")],
)
def test_what_a_run_can_come_to_is_taken(report, raw, log):
    checked(report, raw, log)


@pytest.mark.parametrize(
    ("report", "raw", "log", "said"),
    [
        (LATE, b"<x/>", b"", "not run to their end"),
        (LATE.model_copy(update={"exit_code": 0}), b"", b"", "exit code of tests that were not"),
        (BROKEN, b"<x/>", b"", "not run to their end"),
        (BROKEN, b"", b"said", "output of tests"),
        (BROKEN.model_copy(update={"compile_error": None}), b"", b"", "or none of one that does"),
        (BROKEN.model_copy(update={"timed_out": True}), b"", b"", "never begun"),
        (WHOLE.model_copy(update={"exit_code": None}), b"<x/>", b"", "without an exit code"),
        (WHOLE.model_copy(update={"compile_error": "line 1"}), b"<x/>", b"", "that compiles"),
        (WHOLE.model_copy(update={"restored": (SUITE,)}), b"<x/>", b"", "restored"),
    ],
)
def test_what_no_run_can_come_to_is_refused(report, raw, log, said):
    with pytest.raises(IntegrityError, match=said):
        checked(report, raw, log)


def test_a_change_of_the_suite_itself_must_have_been_taken_back():
    checked(WHOLE.model_copy(update={"restored": (SUITE,)}), b"<x/>", paths=(SUITE, "src/a.py"))
    with pytest.raises(IntegrityError, match="restored"):
        checked(WHOLE, b"<x/>", paths=(SUITE, "src/a.py"))


def test_restored_paths_are_found_whatever_their_case():
    assert restored_paths(EXAM, ["src/a.py", SUITE.upper()]) == (SUITE.upper(),)


def steps(*parts: tuple[str, int, bytes]) -> bytes:
    """The report of a suite's steps, as images/verifier/steps.py writes it."""
    return json.dumps(
        {
            "parts": [
                {
                    "name": name,
                    "exit_code": code,
                    "data_base64": base64.b64encode(data).decode(),
                    "truncated": False,
                }
                for name, code, data in parts
            ]
        }
    ).encode()


GO_EVENTS = (
    b'{"Action":"build-output","Output":"undefined: Overview"}\n'
    b'{"Action":"build-fail","ImportPath":"x"}\n'
)
UNBUILT = [
    ("mux-route-overview", ("go-test", 1, GO_EVENTS)),
    ("strsim-street-key", ("nextest", BUILD_FAILED, b"")),
]
BUILDING = [
    pytest.param(*case, phase, id=f"{case[0]} {phase}") for case in UNBUILT for phase in PHASES
]


def unbuilt(task_id, part, phase):
    """A run of tests that could not be built, as the pipeline records it."""
    task = load_task(fixtures_root(), task_id)
    exam = exam_for(task.card.runner, task.key, draw_seal(phase))
    raw = steps(part, *([(VALUES, 0, b"")] if exam.values is not None else []))
    outcome = VerifyOutcome(
        compiled=True, compile_error=None, timed_out=False, exit_code=0, report=raw, log=b"said"
    )
    return exam, *read_outcome(outcome, exam)


@pytest.mark.parametrize(("task_id", "part", "phase"), BUILDING)
def test_a_suite_that_does_not_build_is_taken_and_follows_from_its_own_report(task_id, part, phase):
    exam, report, raw = unbuilt(task_id, part, phase)
    check_ended("t", report, raw=raw, log=b"said", exam=exam, harvest=harvest("src/a.py"))
    assert report.compile_error
    assert normalise(ended_as(report, exam, raw), exam) == report


@pytest.mark.parametrize(("task_id", "part", "phase"), BUILDING)
def test_whether_a_suite_could_be_built_is_not_taken_over_from_the_record(task_id, part, phase):
    exam, report, raw = unbuilt(task_id, part, phase)
    for compiled in (True, False):
        forged = report.model_copy(update={"compiled": compiled, "compile_error": "line 1"})
        assert normalise(ended_as(forged, exam, raw), exam) == report


@pytest.mark.parametrize(("task_id", "part", "phase"), BUILDING)
def test_a_suite_that_was_never_begun_has_no_report_and_no_output(task_id, part, phase):
    exam, report, raw = unbuilt(task_id, part, phase)
    refused = report.model_copy(
        update={"compiled": False, "compile_error": "no tree", "exit_code": None, "faults": ()}
    )
    check_ended("t", refused, raw=b"", log=b"", exam=exam, harvest=harvest("src/a.py"))
    for kept, said in ((raw, b""), (b"", b"said")):
        with pytest.raises(IntegrityError):
            check_ended("t", refused, raw=kept, log=said, exam=exam, harvest=harvest("src/a.py"))


@pytest.mark.parametrize(("task_id", "part", "phase"), BUILDING)
def test_a_build_error_in_the_runners_own_report_is_no_word_of_the_records(task_id, part, phase):
    exam, report, raw = unbuilt(task_id, part, phase)
    words: Counter[str] = Counter()
    count_words(report, exam, raw, words)
    assert not words


def test_what_hangs_on_the_records_own_word_is_counted_and_told():
    words: Counter[str] = Counter()
    fault = ReportFault(kind="exit_status", detail="137")
    for report in (WHOLE, BROKEN, LATE, LATE, WHOLE.model_copy(update={"faults": (fault,)})):
        count_words(report, EXAM, b"<x/>", words)
    assert told(words) == (
        "by the record's own word, of runs of tests: 1 did not compile, "
        "1 ended in a way that is not believed, 2 met a limit"
    )
    assert not told(Counter())


def without_report(exam, raw, exit_code):
    outcome = VerifyOutcome(
        compiled=True, compile_error=None, timed_out=False, exit_code=exit_code, report=raw, log=b""
    )
    words: Counter[str] = Counter()
    report, kept = read_outcome(outcome, exam)
    count_words(report, exam, kept, words)
    return words


def test_that_there_is_no_report_is_the_records_own_word():
    assert without_report(EXAM, None, 1) == {"ended in a way that is not believed": 1}


def test_a_status_of_steps_that_hides_their_report_is_the_records_own_word():
    exam, _, raw = unbuilt(*UNBUILT[0], "pass_to_pass")
    assert without_report(exam, raw, 1) == {"ended in a way that is not believed": 1}
    assert without_report(exam, b"{}", 0) == {}

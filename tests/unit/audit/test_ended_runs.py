"""Promise: what a record says of how tests ended is taken if one run can come to it, and what hangs on it is told."""

from __future__ import annotations

from collections import Counter

import pytest

from orchestrator.audit.reports import check_ended, count_words, told
from orchestrator.core.errors import IntegrityError
from orchestrator.core.places import fixtures_root
from orchestrator.model.verdict import Change, Harvest, ReportFault, TestReport
from orchestrator.scoring.runners import exam_for, restored_paths
from orchestrator.scoring.seal import draw_seal
from orchestrator.sources.loader import load_task

TASK = load_task(fixtures_root(), "depotfeed-returns")
EXAM = exam_for(TASK.card.runner, TASK.key, draw_seal("pass_to_pass"))
SUITE = f"{TASK.card.runner.test_paths[0]}/test_more.py"
WHOLE = TestReport(
    runner="pytest", phase="pass_to_pass", compiled=True, timed_out=False, exit_code=1, tests=()
)
BROKEN = WHOLE.model_copy(update={"compiled": False, "compile_error": "line 1", "exit_code": None})
LATE = WHOLE.model_copy(update={"timed_out": True, "exit_code": None})


def harvest(*paths: str) -> Harvest:
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
        left_out=(),
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


def test_what_hangs_on_the_records_own_word_is_counted_and_told():
    words: Counter[str] = Counter()
    fault = ReportFault(kind="exit_status", detail="137")
    for report in (WHOLE, BROKEN, LATE, LATE, WHOLE.model_copy(update={"faults": (fault,)})):
        count_words(report, words)
    assert told(words) == (
        "by the record's own word, of runs of tests: 1 did not compile, "
        "1 ended in a way that is not believed, 2 met a limit"
    )
    assert not told(Counter())

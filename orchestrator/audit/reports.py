"""How a run of tests ended, by the record's own word: whether that contradicts itself, and what hangs on it. Pure.

The raw report is the runner's own file, and so are status, limit and what outlived the tests its word. What it
says must be what one run can come to; where a result hangs on it alone, it is counted and told. A suite that
builds as it runs says in its own report that it could not: that follows, and is no word of the record's.
"""

from __future__ import annotations

from collections import Counter

from orchestrator.core.errors import IntegrityError
from orchestrator.model.verdict import Harvest, TestReport
from orchestrator.protocols import VerifyOutcome
from orchestrator.scoring.exam import Exam
from orchestrator.scoring.patch import MAX_CHANGES
from orchestrator.scoring.runners import SUITES, restored_paths
from orchestrator.scoring.suites.form import takes_steps

MAX_RESTORED = 1_000
"""So many paths that were given back their pinned content are named at most (images/verifier/verify.py)."""


def began(report: TestReport, exam: Exam) -> bool:
    """Whether the tests were begun: a suite that builds as it runs has then a status, whatever it could build."""
    return report.compiled or (exam.kind in SUITES and report.exit_code is not None)


def ended_as(report: TestReport, exam: Exam, raw: bytes) -> VerifyOutcome:
    """Returns how the container ended by the record's word, for the runner's report to be read with again.

    Whether a suite that was begun could be built stands in that report and is not taken over.
    """
    read_again = began(report, exam) and exam.kind in SUITES
    return VerifyOutcome(
        compiled=read_again or report.compiled,
        compile_error=None if read_again else report.compile_error,
        timed_out=report.timed_out,
        exit_code=report.exit_code,
        report=raw or None,
        log=b"",
        restored=report.restored,
        left_running=_left_running(report),
    )


def _left_running(report: TestReport) -> int:
    """Returns how many processes outlived the tests, which only a fault's text holds."""
    fault = next((f for f in report.faults if f.kind == "left_running"), None)
    digits = fault.detail.rpartition(" ")[2] if fault else "0"
    return int(digits) if digits.isdecimal() and len(digits) < 10 else 0


def check_ended(
    where: str, report: TestReport, *, raw: bytes, log: bytes, exam: Exam, harvest: Harvest
) -> None:
    """Refuses what is said of a run of tests if no single run can have come to it.

    Args:
        where: trial and phase, for the error text.
        report: as recorded.
        raw: the runner's own report; empty where there is none.
        log: the tests' output.
        exam: what was run.
        harvest: the change that was examined.

    Raises:
        IntegrityError: parts of it contradict one another.
    """
    begun = began(report, exam)
    ran = begun and not report.timed_out
    built_apart = exam.kind not in SUITES or not ran
    contradictions = {
        "a report of tests that were not run to their end": bool(raw) and not ran,
        "an exit code of tests that were not run to their end": (
            report.exit_code is not None and not ran
        ),
        "tests to their end without an exit code": report.exit_code is None and ran,
        "a limit of tests that were never begun": report.timed_out and not begun,
        "output of tests that were never begun": bool(log) and not begun,
        "an error of a change that compiles, or none of one that does not": (
            built_apart and report.compiled != (report.compile_error is None)
        ),
        "other restored paths than the change has": not _restored(report, exam, harvest),
    }
    found = [what for what, holds in contradictions.items() if holds]
    if found:
        raise IntegrityError(
            "test-run-contradicts-itself",
            f"{where}: expected what one run of tests can come to, found {found[0]}",
            hint="no memtrial writes such a record: do not rely on this run",
        )


def _restored(report: TestReport, exam: Exam, harvest: Harvest) -> bool:
    """Whether protected paths were given back as the change asks for; a tree that was refused gives none back."""
    if len(harvest.changes) >= MAX_CHANGES:
        return True
    again = restored_paths(exam, [change.path for change in harvest.changes])[:MAX_RESTORED]
    return report.restored == again or (not began(report, exam) and not report.restored)


def count_words(report: TestReport, exam: Exam, raw: bytes, words: Counter[str]) -> None:
    """Counts what decided over a run of tests and stands nowhere but in the record's own word."""
    kinds = {fault.kind for fault in report.faults}
    unread = "no_report" in kinds and (not raw or (takes_steps(exam.tests) and report.exit_code))
    if not began(report, exam):
        words["did not compile"] += 1
    elif report.timed_out:
        words["met a limit"] += 1
    elif unread or kinds & {"exit_status", "left_running"}:
        words["ended in a way that is not believed"] += 1


def told(words: Counter[str]) -> str:
    """Returns the counts in words; nothing where no run of tests hangs on them."""
    counts = ", ".join(f"{times} {what}" for what, times in sorted(words.items()))
    return f"by the record's own word, of runs of tests: {counts}" if counts else ""

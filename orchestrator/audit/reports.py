"""How a run of tests ended, by the record's own word: whether that contradicts itself, and what hangs on it. Pure.

The raw report is the runner's own file, and so are status, limit and what outlived the tests its word. What it
says must be what one run can come to; where a result hangs on it alone, it is counted and told.
"""

from __future__ import annotations

from collections import Counter

from orchestrator.core.errors import IntegrityError
from orchestrator.model.verdict import Harvest, TestReport
from orchestrator.scoring.exam import Exam
from orchestrator.scoring.patch import MAX_CHANGES
from orchestrator.scoring.runners import restored_paths

MAX_RESTORED = 1_000
"""So many paths that were given back their pinned content are named at most (images/verifier/verify.py)."""


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
    ran = report.compiled and not report.timed_out
    contradictions = {
        "a report of tests that were not run to their end": bool(raw) and not ran,
        "an exit code of tests that were not run to their end": (
            report.exit_code is not None and not ran
        ),
        "tests to their end without an exit code": report.exit_code is None and ran,
        "a limit of tests that were never begun": report.timed_out and not report.compiled,
        "output of tests that were never begun": bool(log) and not report.compiled,
        "an error of a change that compiles, or none of one that does not": (
            report.compiled != (report.compile_error is None)
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
    return report.restored == again or (not report.compiled and not report.restored)


def count_words(report: TestReport, words: Counter[str]) -> None:
    """Counts what decided over a run of tests and stands nowhere but in the record's own word."""
    if not report.compiled:
        words["did not compile"] += 1
    elif report.timed_out:
        words["met a limit"] += 1
    elif any(fault.kind in {"exit_status", "left_running"} for fault in report.faults):
        words["ended in a way that is not believed"] += 1


def told(words: Counter[str]) -> str:
    """Returns the counts in words; nothing where no run of tests hangs on them."""
    counts = ", ".join(f"{times} {what}" for what, times in sorted(words.items()))
    return f"by the record's own word, of runs of tests: {counts}" if counts else ""

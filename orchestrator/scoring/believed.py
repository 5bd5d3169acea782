"""Reads what a verification gave back, and bounds what is kept of a report that proves nothing. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from orchestrator.model.verdict import TestReport
from orchestrator.protocols import VerifyOutcome
from orchestrator.scoring.runners import Exam, normalise

MAX_UNBELIEVED_BYTES: Final = 1024 * 1024


def read_outcome(outcome: VerifyOutcome, exam: Exam) -> tuple[TestReport, bytes]:
    """Returns the normalised report and the runner's own bytes to keep, from which it follows.

    Of a report of which no test counts, a candidate may have written any amount: at most 1 MiB is kept,
    and its end says how much there was. That end is no XML, so no test can count of what is kept either.
    An empty report is none: what is kept tells the two apart as little.
    """
    raw = outcome.report or b""
    outcome = replace(outcome, report=raw or None)
    report = normalise(outcome, exam)
    if report.tests or len(raw) <= MAX_UNBELIEVED_BYTES:
        return report, raw
    mark = b"\n[truncated by memtrial: %d bytes in all, no test of them counts]\n" % len(raw)
    kept = raw[: MAX_UNBELIEVED_BYTES - len(mark)] + mark
    return normalise(replace(outcome, report=kept), exam), kept

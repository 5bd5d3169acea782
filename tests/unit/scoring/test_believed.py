"""Promise: of a report that proves nothing a bounded part is kept, and what is recorded follows from it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from orchestrator.scoring.believed import MAX_UNBELIEVED_BYTES, read_outcome
from orchestrator.scoring.runners import normalise
from tests.unit.scoring.test_runners import OLD, drawn, exam, junit, outcome

__all__ = ["exam"]
PADDING = b"<!-- " + b"x" * (4 * MAX_UNBELIEVED_BYTES) + b" -->"


def test_a_believed_report_is_kept_whole_however_large(exam):
    raw = junit((*drawn(exam), *OLD)) + PADDING
    report, kept = read_outcome(outcome(raw), exam)
    assert len(report.tests) == len(OLD)
    assert kept == raw


@pytest.mark.parametrize(
    ("raw", "how"),
    [
        (junit(OLD) + PADDING, {}),
        (PADDING + junit(OLD), {}),
        (b"\0" * (4 * MAX_UNBELIEVED_BYTES), {}),
        (junit(OLD) + PADDING, {"exit_code": 0}),
        (junit(OLD) + PADDING, {"timed_out": True}),
    ],
)
def test_a_report_that_is_not_believed_is_cut_marked_and_still_not_believed(exam, raw, how):
    found = outcome(raw, **how)
    report, kept = read_outcome(found, exam)
    assert len(kept) == MAX_UNBELIEVED_BYTES
    assert kept.endswith(
        b"[truncated by memtrial: %d bytes in all, no test of them counts]\n" % len(raw)
    )
    assert report.tests == ()
    assert report == normalise(replace(found, report=kept), exam)


def test_a_small_report_that_is_not_believed_is_kept_whole(exam):
    raw = junit(OLD)
    assert read_outcome(outcome(raw), exam)[1] == raw


def test_an_empty_report_is_none_so_that_what_is_kept_gives_the_same(exam):
    """A candidate can empty the file in which its own suite is reported."""
    report, kept = read_outcome(outcome(b""), exam)
    assert kept == b""
    assert report == normalise(outcome(None), exam)

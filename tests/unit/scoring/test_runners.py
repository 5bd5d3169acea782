"""Promise: a report counts only if the engine saw the session end as a whole one."""

from __future__ import annotations

import pytest

from orchestrator.protocols import VerifyOutcome
from orchestrator.scoring.runners import normalise

REPORT = (
    b'<testsuites><testsuite name="pytest"><testcase classname="t" name="a" time="0.1"/>'
    b"</testsuite></testsuites>"
)


@pytest.mark.parametrize(
    ("exit_code", "timed_out", "counted"),
    [(0, False, 1), (1, False, 1), (2, False, 0), (137, False, 0), (None, False, 0), (0, True, 0)],
)
def test_a_green_report_counts_only_after_a_whole_session(
    exit_code: int | None, timed_out: bool, counted: int
) -> None:
    outcome = VerifyOutcome(
        compiled=True,
        compile_error=None,
        timed_out=timed_out,
        exit_code=exit_code,
        report=REPORT,
        log=b"",
    )
    assert len(normalise(outcome, "pass_to_pass").tests) == counted

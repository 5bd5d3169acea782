"""Promise: a run with open trials says what failed and names a step that can help."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.cli.session import incomplete
from orchestrator.core.errors import IntegrityError
from orchestrator.ledger.chain import Ledger
from orchestrator.pipeline.run import Run
from orchestrator.report.build import build_report
from tests.unit.pipeline.conftest import make_plan
from tests.unit.report.test_terminal import report_with

__all__ = ["make_plan"]


def test_used_up_attempts_are_named_with_what_failed_and_a_way_on() -> None:
    report = report_with("EngineFault: no space left")
    row = report.trials[0].model_copy(update={"outcome": "infra_error", "status": "no_verdict"})
    error = incomplete(
        report.model_copy(update={"trials": (row,), "complete": False}),
        1,
        how="run `memtrial resume r`",
    )
    assert (error.reference, error.exit_code) == ("attempts-used-up", 8)
    assert "t/c/oracle/e1 after 1: EngineFault: no space left" in error.message
    assert "mend the cause" in error.hint
    assert "new run of the plan" in error.hint


def test_a_cap_that_trials_share_is_told_as_such_and_not_as_something_to_resume() -> None:
    report = report_with("expected the cap per run to leave room, found less")
    row = report.trials[0].model_copy(update={"outcome": "budget", "status": "no_verdict"})
    capped = report.model_copy(update={"trials": (row,), "complete": False})
    error = incomplete(capped, 1, how="run `memtrial resume r`")
    assert (error.reference, error.exit_code) == ("caps-used-up", 7)
    assert "cap per run" in error.message
    assert "higher --cap" in error.hint


def test_trials_that_were_only_stopped_are_resumed() -> None:
    error = incomplete(report_with("stopped"), 1, how="run `memtrial resume r`")
    assert (error.reference, error.hint) == ("run-incomplete", "run `memtrial resume r`")


def test_a_run_whose_approval_does_not_hold_any_more_says_so_and_how_it_goes_on() -> None:
    report = report_with("ApprovalRefused: expected approval a among those that hold, found none")
    row = report.trials[0].model_copy(update={"outcome": "cancelled", "status": "no_verdict"})
    stopped = report.model_copy(update={"trials": (row,), "complete": False})
    error = incomplete(stopped, 1, how="run `memtrial resume r`")
    assert (error.reference, error.exit_code) == ("approval-not-held", 8)
    assert "at t/c/oracle/e1: ApprovalRefused: expected approval a" in error.message
    assert error.hint.endswith("run `memtrial resume r`")


def test_a_run_that_was_ended_before_its_first_entry_says_so(make_plan, tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_bytes(make_plan().canonical())
    Ledger.create(tmp_path / "ledger.jsonl").close()
    for open_again in (Run.resume, build_report):
        with pytest.raises(IntegrityError) as caught:
            open_again(tmp_path)
        assert caught.value.reference == "run-not-begun"
        assert "memtrial run" in caught.value.hint

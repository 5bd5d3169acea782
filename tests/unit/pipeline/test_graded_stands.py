"""Promise: what is graded is never tried again: whatever breaks after the grade, resume ends the same attempt."""

from __future__ import annotations

import pytest

from orchestrator.core.errors import Misconduct
from orchestrator.ledger.chain import Ledger, read_entries
from orchestrator.ledger.history import replay
from orchestrator.model.outcome import Outcome
from orchestrator.model.record import AttemptEnded, RunEnded
from orchestrator.pipeline import stages
from orchestrator.pipeline.run import Run
from tests.fakes.sandbox import FakeSandbox

ONE = {"tasks": ("depotfeed-returns",)}


def attempts_of(run):
    (trial,) = replay(read_entries(run.folder / "ledger.jsonl")[0]).trials.values()
    return trial.attempts


def test_a_fault_after_the_grade_leaves_the_attempt_open_and_resume_seals_its_verdict(
    make_plan, run_with, monkeypatch, tmp_path
):
    def full(*_):
        raise OSError("no space left on device")

    plan = make_plan(**ONE)
    run = Run.create(tmp_path, plan, engine="fake", workers=1)
    with monkeypatch.context() as broken:
        broken.setattr(stages, "seal", full)
        with pytest.raises(OSError, match="no space"):
            run_with(plan, FakeSandbox(), run=run)
    run.close()
    run = Run.resume(run.folder)
    (before,) = attempts_of(run)
    assert before.ended is None
    run_with(plan, FakeSandbox(), run=run)
    (after,) = attempts_of(run)
    assert after.ended is not None
    assert after.ended.outcome is Outcome.COMPLETED
    assert after.stages.keys() > before.stages.keys()


def test_misconduct_that_was_graded_before_the_process_died_is_still_misconduct(
    make_plan, run_with, monkeypatch, tmp_path
):
    def seen(_, step):
        if step == "act":
            raise Misconduct("probed", "the agent looked", hint="none", evidence=("line",))

    append = Ledger.append

    def dies(self, body):
        if isinstance(body, AttemptEnded | RunEnded):
            raise KeyboardInterrupt
        append(self, body)

    plan = make_plan(**ONE)
    run = Run.create(tmp_path, plan, engine="fake", workers=1)
    with monkeypatch.context() as dying:
        dying.setattr(Ledger, "append", dies)
        with pytest.raises(KeyboardInterrupt):
            run_with(plan, FakeSandbox(seen), run=run)
    run.close()
    run = Run.resume(run.folder)
    run_with(plan, FakeSandbox(), run=run)
    assert [a.ended.outcome for a in attempts_of(run)] == [Outcome.MISCONDUCT]

"""Promise: a run that was interrupted anywhere and taken up again verifies, and says where an end is missing."""

from __future__ import annotations

import pytest

from orchestrator.attest import layout
from orchestrator.audit.trust import Trust
from orchestrator.audit.verify import verify_bundle
from orchestrator.audit.view import FolderView
from orchestrator.ledger.chain import Ledger
from orchestrator.model.outcome import Outcome
from orchestrator.model.record import AttemptEnded, AttemptStarted, Stage, StageDone
from orchestrator.pipeline.options import PlanRequest
from orchestrator.pipeline.run import Run
from tests.evidence.conftest import NOW
from tests.recorded import TINY, PlayedSandbox, benches, make_plan, seal, write_reports


def verify(folder):
    return verify_bundle(FolderView(folder), Trust(now=NOW), name="resumed")


def begun(tmp_path, monkeypatch, dies_at):
    """A run whose process died just before it wrote an entry."""
    plan = make_plan(TINY)
    run = Run.create(tmp_path, plan, engine="played", workers=1)
    append = Ledger.append

    def dying(self, body):
        if dies_at(body):
            raise KeyboardInterrupt
        append(self, body)

    with monkeypatch.context() as patched:
        patched.setattr(Ledger, "append", dying)
        with pytest.raises(KeyboardInterrupt):
            run.execute(benches(plan, PlayedSandbox()), workers=1, progress=lambda _: None)
    run.close()
    return plan, run.folder


def at_stage(stage):
    return lambda body: isinstance(body, StageDone) and body.stage is stage


DEATHS = {stage.value: at_stage(stage) for stage in Stage} | {
    "end": lambda body: isinstance(body, AttemptEnded)
}


@pytest.mark.parametrize("dies_at", DEATHS.values(), ids=DEATHS)
def test_a_run_that_died_before_any_entry_and_went_on_verifies(tmp_path, monkeypatch, dies_at):
    plan, folder = begun(tmp_path, monkeypatch, dies_at)
    run = Run.resume(folder)
    run.execute(benches(plan, PlayedSandbox()), workers=1, progress=lambda _: None)
    run.close()
    write_reports(folder)
    seal(folder)
    answer = verify(folder)
    assert answer.failed == ()
    assert next(c for c in answer.checks if c.name == "verdicts").count == 1


def test_a_run_of_which_two_trials_died_after_one_had_begun_again_verifies(tmp_path):
    """The first trial broke and began again while the second was under way; then the process died."""
    asked = PlanRequest(agents=("oracle", "noop"), tasks=TINY.tasks, conditions=TINY.conditions)
    plan = make_plan(asked)
    first, second = (trial.key for trial in plan.trials)
    run = Run.create(tmp_path, plan, engine="played", workers=2)
    run.close()
    ledger, _, _ = Ledger.open_for_append(run.folder / layout.LEDGER, repair=False, signed=None)
    broken = AttemptEnded(
        trial=first,
        attempt=1,
        outcome=Outcome.INFRA_ERROR,
        verdict_sha256=None,
        error_reference="engine-lost",
        error="lost",
        wall_ms=0,
        container_ms=0,
    )
    ledger.append(AttemptStarted(trial=first, attempt=1))
    ledger.append(AttemptStarted(trial=second, attempt=1))
    ledger.append(broken)
    ledger.append(AttemptStarted(trial=first, attempt=2))
    ledger.close()
    run = Run.resume(run.folder)
    run.execute(benches(plan, PlayedSandbox()), workers=1, progress=lambda _: None)
    run.close()
    write_reports(run.folder)
    seal(run.folder)
    assert verify(run.folder).failed == ()


def test_a_record_without_an_end_is_told_and_not_called_whole(tmp_path, monkeypatch):
    _, folder = begun(tmp_path, monkeypatch, at_stage(Stage.GRADE))
    write_reports(folder)
    seal(folder)
    answer = verify(folder)
    assert answer.exit_code == 0
    ledger = next(c for c in answer.checks if c.name == "ledger")
    assert (ledger.status, ledger.detail) == (
        "partly",
        "no end of the run is recorded: what came last may be missing",
    )


def test_a_record_whose_end_was_cut_off_is_no_longer_whole(tiny, tmp_path):
    lines = tiny.files[layout.LEDGER].splitlines()
    (tmp_path / layout.PLAN).write_bytes(tiny.files[layout.PLAN])
    (tmp_path / layout.LEDGER).write_bytes(b"".join(line + b"\n" for line in lines[:-1]))
    for name, data in tiny.files.items():
        if name.startswith(layout.BLOBS):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_bytes(data)
    write_reports(tmp_path)
    seal(tmp_path)
    assert next(c for c in verify(tmp_path).checks if c.name == "ledger").status == "partly"

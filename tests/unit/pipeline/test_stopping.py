"""Promise: a stop is said at once, names the run, and what it broke is cancelled with its breakage kept."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from orchestrator.core.errors import Cancelled, IntegrityError
from orchestrator.ledger.chain import read_entries
from orchestrator.ledger.history import replay
from orchestrator.model.outcome import Outcome
from orchestrator.pipeline.run import Run
from orchestrator.pipeline.stopping import stoppable
from tests.fakes.sandbox import FakeSandbox

ONE = {"tasks": ("depotfeed-returns",)}
STEPS = {
    "open": "preparing",
    "act": "the agent acted",
    "harvest": "harvesting",
    "verify": "grading",
}


class Said:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.aborted = threading.Event()

    def say(self, value: str) -> None:
        self.lines.append(value)

    def stage(self, trial: str, stage: str) -> None: ...

    def ended(self, trial: str) -> None: ...

    def close(self) -> None: ...

    def abort(self) -> None:
        self.aborted.set()


@pytest.mark.parametrize("step", STEPS)
def test_what_breaks_after_a_stop_is_cancelled_in_words_and_its_breakage_is_kept(
    make_plan, run_with, tmp_path, step
):
    plan = make_plan(**ONE)
    run = Run.create(tmp_path, plan, engine="fake", workers=2)

    def fault(key, now):
        if now == step:
            run.stop()
            raise IntegrityError("trusted-program-failed", "it said nothing", hint="none")

    run_with(plan, FakeSandbox(fault), run=run)
    (trial,) = replay(read_entries(run.folder / "ledger.jsonl")[0]).trials.values()
    (attempt,) = trial.attempts
    ended = attempt.ended
    assert ended is not None
    assert ended.outcome is Outcome.CANCELLED
    assert ended.error == (
        f"interrupted while {STEPS[step]}; `memtrial resume {run.folder.name}` repeats it"
    )
    assert ended.evidence is not None
    assert b"it said nothing" in run.blobs.get(ended.evidence.sha256)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_answered_at_once_and_the_hint_names_the_run(make_plan, tmp_path, number):
    said = Said()
    run = Run.create(tmp_path, make_plan(**ONE), engine="fake", workers=2)

    def work() -> None:
        with stoppable(said, said) as stopper:
            stopper.of(run)
            os.kill(os.getpid(), number)
            assert said.aborted.wait(10)

    with pytest.raises(Cancelled) as stopped:
        work()
    run.close()
    assert said.lines == ["stopping: ending 0 trials (Ctrl-C again to kill)"]
    assert stopped.value.hint == f"run `memtrial resume {run.folder.name}`"
    assert "1 trial of 1 is left" in stopped.value.message


def test_a_signal_before_the_run_is_made_stops_it_as_well(make_plan, run_with, tmp_path):
    said = Said()
    plan = make_plan(**ONE)
    sandbox = FakeSandbox()

    def work() -> None:
        with stoppable(said, said) as stopper:
            os.kill(os.getpid(), signal.SIGTERM)
            run = Run.create(tmp_path, plan, engine="fake", workers=2)
            stopper.of(run)
            run_with(plan, sandbox, run=run)

    with pytest.raises(Cancelled):
        work()
    assert sandbox.opened == []

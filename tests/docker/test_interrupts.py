"""Promise: what a stop ended is cancelled, never a verdict, and `resume` comes to the uninterrupted table."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from orchestrator.core.errors import Cancelled
from orchestrator.ledger.chain import read_entries
from orchestrator.ledger.history import replay
from orchestrator.model.record import Stage
from tests.docker.conftest import ours
from tests.docker.test_faults import containers_of
from tests.docker.test_runs import memtrial
from tests.docker.test_workspace import shell

pytestmark = pytest.mark.docker

# What stands in the ledger when a stage has begun and not ended.
BEGUN = {
    "prepare": '"kind":"attempt_started"',
    "act": '"stage":"inject"',
    "harvest": '"stage":"act"',
    "grade": '"stage":"harvest"',
}
SHOWN = ("trial", "status", "failure_reason", "memory_tokens", "verdict_sha256")


def table(run: Path) -> list[list[object]]:
    report = json.loads((run / "report.json").read_bytes())
    return [[row[name] for name in SHOWN] for row in report["trials"]]


@pytest.fixture(scope="module")
def plan_file(tmp_path_factory) -> Path:
    folder = Path(tmp_path_factory.mktemp("plan"))
    words = ("--agent", "follower", "--condition", "curated_file_budgeted")
    made = memtrial(
        "plan",
        *words,
        "--task",
        "depotfeed-returns",
        "--out",
        str(folder / "p.json"),
        results=folder,
    )
    assert made.returncode == 0, made.stderr
    return folder / "p.json"


@pytest.fixture(scope="module")
def uninterrupted(plan_file, tmp_path_factory) -> list[list[object]]:
    results = tmp_path_factory.mktemp("whole")
    assert memtrial("run", str(plan_file), results=results).returncode == 0
    return table(results / "latest")


def interrupted(plan_file: Path, results: Path, marker: str, *, group: bool) -> tuple[int, str]:
    """Runs the plan and sends the signal as soon as the ledger holds the entry."""
    process = subprocess.Popen(
        [sys.executable, "-m", "orchestrator", "run", str(plan_file)],
        env={**os.environ, "MEMTRIAL_RESULTS": str(results)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while process.poll() is None:
        ledgers = list(results.glob("2*/ledger.jsonl"))
        if ledgers and marker in ledgers[0].read_text(encoding="utf-8"):
            break
        time.sleep(0.002)
    if group:
        os.killpg(process.pid, signal.SIGINT)
    else:
        process.send_signal(signal.SIGTERM)
    said = process.communicate(timeout=60)[1]
    return process.returncode, said


@pytest.mark.parametrize("group", [True, False], ids=["SIGINT-to-the-group", "SIGTERM"])
@pytest.mark.parametrize("stage", BEGUN)
def test_a_stop_in_any_stage_cancels_the_attempt_and_resume_gives_the_uninterrupted_table(
    plan_file, uninterrupted, results, client, stage, group
):
    before = ours(client)
    code, said = interrupted(plan_file, results, BEGUN[stage], group=group)
    run = (results / "latest").resolve()
    assert code == 130, said
    assert "stopping: ending 1 trial (Ctrl-C again to kill)" in said
    assert f"memtrial resume {run.name}" in said
    assert ours(client) == before
    (trial,) = replay(read_entries(run / "ledger.jsonl")[0]).trials.values()
    (attempt,) = trial.attempts
    assert attempt.ended is not None
    assert (attempt.ended.outcome, attempt.ended.verdict_sha256) == ("cancelled", None)
    assert Stage.GRADE not in attempt.stages
    assert attempt.ended.error is not None
    assert attempt.ended.error.startswith("interrupted while ")
    assert attempt.ended.error.endswith(f"; `memtrial resume {run.name}` repeats it")
    if stage == "grade":
        assert "interrupted while grading; " in said
    assert memtrial("resume", run.name, results=results).returncode == 0
    assert table(run) == uninterrupted
    assert ours(client) == before


def works_in(client, trial: str, program: str) -> None:
    """Waits until the agent's container runs a program."""
    while True:
        told = client.api.top(containers_of(client, trial)["agent"])
        if any(program in " ".join(process) for process in told["Processes"]):
            return


@pytest.mark.usefixtures("nothing_left")
def test_the_thread_that_waits_for_the_agent_learns_that_the_abort_ended_it(
    client, sandbox, plan, monkeypatch
):
    # Without the engine's word on who ended it: the flag alone must do.
    monkeypatch.setattr("orchestrator.sandbox.containers.Container.meddled", lambda _: ())
    task = plan.task("depotfeed-returns")

    def stop() -> None:
        works_in(client, "abort-act", "sleep 30")
        sandbox.abort()

    with sandbox.open(task, trial="abort-act") as workspace:
        stopper = threading.Thread(target=stop)
        stopper.start()
        with pytest.raises(Cancelled, match="interrupted while the agent acted"):
            workspace.act(shell("sleep 30"))
        stopper.join()


@pytest.mark.usefixtures("nothing_left")
def test_after_an_abort_no_step_gives_a_result_and_no_container_starts(sandbox, plan):
    task = plan.task("depotfeed-returns")
    with sandbox.open(task, trial="abort-harvest") as workspace:
        workspace.act(shell("true"))
        sandbox.abort()
        with pytest.raises(Cancelled, match="interrupted while harvesting"):
            workspace.harvest()
    with pytest.raises(Cancelled), sandbox.open(task, trial="abort-open"):
        pytest.fail("a workspace opened after the abort")

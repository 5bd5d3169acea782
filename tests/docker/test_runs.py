"""Promise: a run survives its own death, repeats to the byte, and leaves nothing in the engine."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from orchestrator.ledger.chain import read_entries
from orchestrator.ledger.history import replay
from orchestrator.model.plan import AgentPin, Plan, Retry, TaskPin, setting_of
from orchestrator.model.record import Stage
from tests.docker.conftest import ours

pytestmark = pytest.mark.docker


def memtrial(
    *words: str, results: Path, cwd: Path | None = None, **more: str
) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "MEMTRIAL_RESULTS": str(results), **more}
    return subprocess.run(
        [sys.executable, "-m", "orchestrator", *words],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
    )


@pytest.fixture
def plan_file(tmp_path):
    path = tmp_path / "plan.json"
    made = memtrial(
        "plan",
        "--agent",
        "follower",
        "--agent",
        "oracle",
        "--task",
        "depotfeed-returns",
        "--out",
        str(path),
        results=tmp_path,
    )
    assert made.returncode == 0, made.stderr
    return path


def documents(run: Path) -> dict[str, str]:
    """Digest of every verdict and harvest of a run, by trial."""
    record = replay(read_entries(run / "ledger.jsonl")[0])
    return {
        f"{key} {stage}": trial.graded.stages[stage].document_sha256
        for key, trial in record.trials.items()
        if trial.graded
        for stage in (Stage.GRADE, Stage.HARVEST, Stage.INJECT)
    }


def test_two_runs_of_one_plan_give_the_same_verdicts_trees_and_injections(
    plan_file, results, client
):
    before = ours(client)
    again = plan_file.with_name("again.json")
    memtrial(
        "plan",
        "--agent",
        "follower",
        "--agent",
        "oracle",
        "--task",
        "depotfeed-returns",
        "--out",
        str(again),
        results=results,
    )
    assert again.read_bytes() == plan_file.read_bytes()
    for _ in range(2):
        finished = memtrial("run", str(plan_file), results=results)
        assert finished.returncode == 0, finished.stderr
    first, second = sorted(p for p in results.iterdir() if p.is_dir() and not p.is_symlink())
    assert documents(first) == documents(second)
    assert ours(client) == before


def test_the_report_is_rebuilt_from_the_record_alone(plan_file, results):
    memtrial("run", str(plan_file), results=results)
    run = (results / "latest").resolve()
    written = (run / "report.json").read_bytes(), (run / "report.txt").read_bytes()
    for name in ("report.json", "report.txt"):
        (run / name).unlink()
    assert memtrial("report", "latest", results=results).returncode == 0
    assert ((run / "report.json").read_bytes(), (run / "report.txt").read_bytes()) == written


@pytest.mark.parametrize("stage", [Stage.INJECT, Stage.HARVEST])
def test_after_kill_9_resume_loses_and_doubles_nothing(plan_file, results, client, stage):
    before = ours(client)
    environment = {**os.environ, "MEMTRIAL_RESULTS": str(results)}
    process = subprocess.Popen(
        [sys.executable, "-m", "orchestrator", "run", str(plan_file)],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    marker = f'"stage":"{stage.value}"'.encode()
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        ledgers = list(results.glob("2*/ledger.jsonl"))
        if ledgers and marker in ledgers[0].read_bytes():
            break
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert memtrial("report", "latest", results=results).returncode == 8
    finished = memtrial("resume", "latest", results=results)
    assert finished.returncode == 0, finished.stderr
    record = replay(read_entries(results / "latest" / "ledger.jsonl")[0])
    report = json.loads((results / "latest" / "report.json").read_bytes())
    assert len(record.trials) == len(report["trials"]) == 6
    assert all(
        sum(a.ended is not None and a.ended.outcome == "completed" for a in t.attempts) == 1
        for t in record.trials.values()
    )
    assert all(a.ended is not None for t in record.trials.values() for a in t.attempts)
    assert ours(client) == before


def test_a_stop_signal_cleans_up_and_can_be_resumed(plan_file, results, client):
    before = ours(client)
    environment = {**os.environ, "MEMTRIAL_RESULTS": str(results)}
    process = subprocess.Popen(
        [sys.executable, "-m", "orchestrator", "run", str(plan_file)],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not any(
        b"attempt_started" in p.read_bytes() for p in results.glob("2*/ledger.jsonl")
    ):
        time.sleep(0.02)
    time.sleep(0.8)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert ours(client) == before
    assert memtrial("resume", "latest", results=results).returncode == 0


def test_a_changed_plan_is_refused(plan_file, results):
    plan_file.write_bytes(plan_file.read_bytes().replace(b'"epochs":1', b'"epochs": 1'))
    finished = memtrial("run", str(plan_file), results=results)
    assert finished.returncode == 3
    assert "canonical" in finished.stderr
    assert not list(results.glob("2*"))


def test_a_plan_that_is_not_what_its_inputs_give_is_refused_before_anything_is_written(
    plan_file, results
):
    document = json.loads(plan_file.read_bytes())
    (task,) = document["tasks"]
    task["verifier_image"] = task["agent_image"]
    plan = Plan.model_validate_json(json.dumps({**document, "arms": arms_of(document)}))
    plan_file.write_bytes(plan.canonical())
    finished = memtrial("run", str(plan_file), results=results)
    assert finished.returncode == 3, finished.stderr
    assert "tasks.0.verifier_image.id: expected sha256:" in finished.stderr
    assert not list(results.glob("2*"))


def arms_of(document):
    """The settings of the arms as the edited pins give them."""
    task = TaskPin.model_validate_json(json.dumps(document["tasks"][0]))
    agents = tuple(AgentPin.model_validate_json(json.dumps(a)) for a in document["agents"])
    retry = Retry.model_validate(document["retry"])
    return [
        setting_of(task, arm["condition_id"], agents, retry, document["profile_sha256"]).model_dump(
            mode="json"
        )
        for arm in document["arms"]
    ]


def test_without_an_engine_the_error_says_what_to_run(plan_file, results):
    finished = memtrial(
        "run", str(plan_file), results=results, DOCKER_HOST="unix:///nonexistent.sock"
    )
    assert finished.returncode == 4
    assert "apt-get install" in finished.stderr


def test_a_plan_that_does_not_fit_its_files_leaves_no_run_and_does_not_move_latest(
    plan_file, results, tmp_path, fixtures
):
    changed = tmp_path / "fixtures"
    shutil.copytree(fixtures, changed)
    memory = changed / "curated" / "depotfeed-returns" / "MEMORY.md"
    memory.write_text(memory.read_text(encoding="utf-8") + "x", encoding="utf-8")
    finished = memtrial("run", str(plan_file), results=results, MEMTRIAL_FIXTURES=str(changed))
    assert finished.returncode == 6
    assert "curated-file-changed" in finished.stderr
    assert not results.exists()

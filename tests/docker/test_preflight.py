"""Promise: `run`, `resume`, `smoke` and `images` refuse a machine that is too small, and start nothing."""

from __future__ import annotations

import shutil

import pytest

from orchestrator.cli.main import main
from orchestrator.core.files import write_atomic
from orchestrator.pipeline import ready
from orchestrator.pipeline.run import Run

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("nothing_left")]


@pytest.fixture
def plan_file(plan, tmp_path):
    path = tmp_path / "plan.json"
    write_atomic(path, plan.canonical())
    return path


@pytest.fixture
def full_disk(monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(100, 93, 7))


@pytest.fixture
def little_memory(monkeypatch):
    monkeypatch.setattr(ready, "available_memory_bytes", lambda _: 64 * 1024**2)


def test_run_on_a_full_disk_starts_nothing(plan_file, results, full_disk, capsys):
    assert main(["run", str(plan_file)]) == 4
    said = capsys.readouterr().err
    assert "disk-too-small" in said
    assert "found 0 MiB" in said
    assert not results.exists()


def test_run_without_memory_for_one_trial_starts_nothing(plan_file, results, little_memory, capsys):
    assert main(["run", str(plan_file)]) == 4
    said = capsys.readouterr().err
    assert "memory-too-small" in said
    assert "found 64 MiB" in said
    assert not results.exists()


@pytest.mark.parametrize("words", [["smoke"], ["images"]])
def test_set_up_on_a_full_disk_starts_nothing(words, results, full_disk, capsys):
    assert main(words) == 4
    assert "images in the cache" in capsys.readouterr().err
    assert not results.exists()


def test_resume_without_memory_leaves_the_record_as_it_was(plan, results, little_memory, capsys):
    run = Run.create(results, plan, engine="none", workers=1)
    run.close()
    before = (run.folder / "ledger.jsonl").read_bytes()
    assert main(["resume", "latest"]) == 4
    assert "memory-too-small" in capsys.readouterr().err
    assert (run.folder / "ledger.jsonl").read_bytes() == before


def test_memory_for_one_trial_at_a_time_runs_one_at_a_time_and_says_so(plan, client, monkeypatch):
    said: list[str] = []
    one = max(ready_limits(plan))
    monkeypatch.setattr(ready, "available_memory_bytes", lambda _: one)
    assert ready.ready_to_run(client, plan, plan.trials, said.append, workers=8) == 1
    assert len(said) == 1
    assert said[0].startswith("workers: 1 instead of 8")


def ready_limits(plan):
    from orchestrator.sandbox.preflight import trial_memory_bytes

    return [trial_memory_bytes(task.limits) for task in plan.tasks]

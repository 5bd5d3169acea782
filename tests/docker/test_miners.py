"""Promise: a program that mines a hidden suite for the answer finds none in the pack's.

Each miner of tests/cases/miners is played twice: against a suite that gives the fact away, which it must pass,
so that it is a real one, and against the task's own. One of them runs with every test run, the others with
the proofs.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from orchestrator.core.canonical import sha256_hex
from orchestrator.core.places import fixtures_root
from orchestrator.model.task import FailToPass
from orchestrator.pipeline.validate.run import stage_for
from orchestrator.sources.loader import load_task
from tests.docker.patching import added, replaced

pytestmark = pytest.mark.docker
CASES = Path(__file__).parents[1] / "cases/miners"
EVERY_RUN = "typescript-a-lax-pattern"
MINERS = [
    name if name == EVERY_RUN else pytest.param(name, marks=pytest.mark.proof)
    for name in sorted(p.name for p in CASES.iterdir() if p.is_dir())
]


@pytest.fixture(params=MINERS)
def miner(request, client):
    """A case, the task's stage, and the miner's patch."""
    folder = CASES / request.param
    case = json.loads((folder / "case.json").read_bytes())
    stage = stage_for(load_task(fixtures_root(), case["task"]), client, lambda _: None)
    patch = stage.task.rehearsal.natural_patch
    for old, new in case["replaced"]:
        patch = replaced(patch, old, new)
    for path, name in case["adds"].items():
        patch += added(path, (folder / name).read_text(encoding="utf-8"))
    return folder, case, stage, patch


def telling(stage, folder, case):
    """The stage with the suite that gives the fact away."""
    text = (folder / case["hidden"]).read_text(encoding="utf-8")
    (file,) = stage.task.key.hidden_files
    file = file.model_copy(update={"text": text, "sha256": sha256_hex(text.encode())})
    tests = tuple(
        FailToPass(id=name, group="memory", values=tuple(values))
        for name, values in case["telling"].items()
    )
    card = stage.task.key.card.model_copy(update={"fail_to_pass": tests})
    key = stage.task.key.model_copy(update={"hidden_files": (file,), "card": card})
    return dataclasses.replace(stage, task=dataclasses.replace(stage.task, key=key))


def test_a_miner_passes_a_suite_that_gives_the_fact_away_and_no_memory_test_of_the_task(miner):
    folder, case, stage, patch = miner
    weak = telling(stage, folder, case)
    outcome = weak.play(patch)
    told = weak.tallies(outcome)[1]
    assert told.passed == told.expected == len(case["telling"]), outcome.hidden
    assert stage.tallies(stage.play(patch))[1].passed == 0


def test_who_does_not_read_the_suite_fails_it(miner):
    """The suite that gives the fact away gives it to readers alone: the natural patch does not pass."""
    folder, case, stage, _ = miner
    weak = telling(stage, folder, case)
    told = weak.tallies(weak.play(stage.task.rehearsal.natural_patch))[1]
    assert told.passed < told.expected

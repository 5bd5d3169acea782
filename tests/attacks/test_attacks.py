"""Promise: every attack is real, and none succeeds: with its defence off it wins, with it on it loses."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from orchestrator.core.places import cache_root, fixtures_root
from orchestrator.model.attack import Defence
from orchestrator.model.plan import TaskPin
from orchestrator.pipeline.arena import TASK, arena_plan
from orchestrator.pipeline.attack import Arena
from orchestrator.pipeline.guards import host_canary
from orchestrator.pipeline.imaging import shared_images
from orchestrator.pipeline.setup import benches
from orchestrator.protocols import Sandbox, VerifyJob, VerifyOutcome
from orchestrator.sandbox.adapter import DockerSandbox
from orchestrator.sandbox.engine import connect
from orchestrator.sandbox.identity import installation_id
from orchestrator.sandbox.reaper import reap
from orchestrator.sources.attacks import list_attacks, load_attack
from orchestrator.sources.checkout import materialise
from orchestrator.sources.loader import load_task
from tests.attacks.weak import WEAKEN, Lab, weaken

# What these attacks are after is known before anything is graded; grading them costs time and says nothing.
UNGRADED = {"loot", "exceed", "outlive", "unseen"}
ROOT = Path(__file__).resolve().parents[2]
ATTACKS = list_attacks(fixtures_root())


@pytest.fixture(scope="session")
def client():
    return connect()


@pytest.fixture(scope="session")
def plan():
    return arena_plan(lambda _: None)


@pytest.fixture(scope="session")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkout")
    made = materialise(
        load_task(fixtures_root(), TASK).source, fixtures=fixtures_root(), cache=cache_root()
    )
    for entry in made.entries:
        target = folder / entry.path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(entry.data)
    return folder


class Ungraded:
    """A sandbox whose verifications are not run."""

    def __init__(self, inner: Sandbox) -> None:
        self._inner = inner

    def open(self, task: TaskPin, *, trial: str, sockets: Path | None = None) -> Any:
        return self._inner.open(task, trial=trial, sockets=sockets)

    def verify(self, job: VerifyJob, *, trial: str) -> tuple[VerifyOutcome, int]:
        return VerifyOutcome(
            compiled=False,
            compile_error="not graded",
            timed_out=False,
            exit_code=None,
            report=None,
            log=b"",
        ), 0


def arena_in(folder: Path, plan, sandbox: Sandbox, client, goal: str) -> Arena:
    if goal in UNGRADED:
        sandbox = Ungraded(sandbox)
    return Arena(
        plan,
        sandbox,
        lambda plan, sandbox, run: benches(plan, sandbox, client, secret=host_canary(run)),
        folder,
    )


@pytest.mark.docker
@pytest.mark.parametrize("attack_id", ATTACKS)
def test_an_attack_succeeds_where_its_defence_is_off(
    attack_id, plan, client, checkout, tmp_path, monkeypatch
):
    attack = load_attack(fixtures_root(), attack_id)
    real = DockerSandbox(client, installation_id(cache_root()))
    lab = Lab(
        patcher=monkeypatch,
        folder=tmp_path,
        card=attack.card,
        client=client,
        shared_images=lambda: shared_images(client, (), lambda _: None).python,
        checkout=checkout,
        sandbox=real,
    )
    weaken(lab)
    runs = tmp_path / "runs"
    runs.mkdir()
    try:
        row = arena_in(runs, plan, lab.sandbox, client, attack.card.goal).attack(attack)
    finally:
        reap(client, installation_id(cache_root()), session=real.session)
    assert row.succeeded, row.evidence


@pytest.mark.docker
@pytest.mark.parametrize("attack_id", ATTACKS)
def test_an_attack_is_stopped_where_its_defence_is_on(attack_id, plan, client, tmp_path):
    # What other, dead processes left is none of this attack's.
    reap(client, installation_id(cache_root()))
    sandbox = DockerSandbox(client, installation_id(cache_root()))
    attack = load_attack(fixtures_root(), attack_id)
    row = arena_in(tmp_path, plan, sandbox, client, attack.card.goal).attack(attack)
    assert not row.succeeded, row.evidence
    assert reap(client, installation_id(cache_root()), session=sandbox.session).removed == ()


def test_every_defence_can_be_switched_off_and_is_named_by_an_attack():
    named = {d for a in ATTACKS for d in load_attack(fixtures_root(), a).card.defences}
    assert named == set(Defence) == set(WEAKEN)


def test_there_are_forty_attacks_or_more():
    assert len(ATTACKS) >= 40


@pytest.mark.docker
def test_ctrl_c_ends_the_attack_that_runs_and_leaves_nothing(client, results, command_environment):
    words = [sys.executable, "-m", "orchestrator", "attack", "survivor-stopped-parent"]
    environment = {**command_environment, "MEMTRIAL_RESULTS": str(results)}
    process = subprocess.Popen(words, env=environment, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    pattern = "attacks-*/survivor-stopped-parent-1/*/ledger.jsonl"
    deadline_s = time.monotonic() + 120
    try:
        # The stage before `act` is on record: the hostile program is about to run, or runs.
        while not any(b'"isolate"' in path.read_bytes() for path in results.glob(pattern)):
            assert time.monotonic() < deadline_s
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 130, said
    assert "attack-interrupted" in said
    left = reap(client, installation_id(cache_root()), look_only=True)
    assert [found.name for found in left.removed if "survivor-stopped-parent" in found.trial] == []

"""Promise: the first documented step is gone by its own words, and what no approval can name is said, not dumped."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.cli.main import main
from orchestrator.core.files import write_atomic
from orchestrator.pipeline import plan as planning_module
from orchestrator.trust.proposals import read_proposal
from tests.gate.world import World, ingredients, make_world, smoke_plan
from tests.unit.gateway.support import PRICES

BOUNDS = ("--max-input-tokens", "1000000", "--max-output-tokens", "100000")


@pytest.fixture
def world(clean_folder) -> World:
    return make_world(clean_folder, ingredients())


def said(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = main(list(words))
    captured = capsys.readouterr()
    return code, " ".join((captured.out + captured.err).split())


def proposing(world: World, plan: Path, name: str = "new-one") -> list[str]:
    words = ["approve", "propose", str(plan), "--id", name, "--commit", world.first, *BOUNDS]
    return [*words, "--repository", str(world.repo), "--system", str(world.system)]


def planning(phase: str, prices: Path, *more: str) -> list[str]:
    write_atomic(prices, PRICES.canonical())
    words = ["plan", "--phase", phase, "--agent", "chat", "--model", "model-1"]
    words += ["--prices", str(prices), "--max-usd", "5", "--condition", "no_memory"]
    return [*words, *more]


def test_a_plan_that_was_made_as_the_page_says_can_be_proposed(world, capsys, clean_folder):
    plan = clean_folder / "plan.json"
    words = planning("smoke", clean_folder / "prices.json", "--task", "depotfeed-returns")
    code, text = said(capsys, *words, "--out", str(plan))
    assert code == 0, text
    code, text = said(capsys, *proposing(world, plan))
    assert code == 0, text
    approval = read_proposal(world.repo / "approvals", "new-one")
    assert (approval.namespace, approval.task_set, approval.epochs) == ("smoke-1", "smoke", 1)


@pytest.mark.parametrize(
    ("phase", "more", "expected"),
    [
        ("smoke", ("--namespace", "default"), "--namespace smoke-NAME"),
        ("smoke", ("--namespace", "smoke-"), "--namespace smoke-NAME"),
        ("smoke", ("--task-set", "full"), "--task-set smoke"),
        ("smoke", ("--epochs", "2"), "--epochs 1"),
        ("smoke", ("--agent", "codex"), "--agent given once"),
        ("official", ("--namespace", "official-v2"), "--namespace official-v1"),
        ("official", ("--task-set", "smoke"), "--task-set full"),
    ],
)
def test_a_plan_that_no_approval_of_its_phase_could_name_is_not_made(
    capsys, tmp_path, phase, more, expected
):
    code, text = said(capsys, *planning(phase, tmp_path / "prices.json", *more), "--dry-run")
    assert (code, "plan-not-of-its-phase" in text, expected in text) == (2, True, True), text


def test_an_official_plan_has_its_namespace_and_its_set_by_itself(capsys, tmp_path, monkeypatch):
    # Whether each task's validation is recorded is a matter of the pack, and not of the phase.
    monkeypatch.setattr(planning_module, "check_valid", lambda *_, **__: None)
    words = planning("official", tmp_path / "prices.json", "--epochs", "3", "--dry-run")
    code, text = said(capsys, *words)
    assert code == 0, text


@pytest.mark.parametrize(
    ("change", "name", "told"),
    [
        ({"namespace": "default"}, "new-one", "namespace 'default'"),
        ({}, "Not A Name", "approval_id 'Not A Name'"),
    ],
)
def test_what_no_approval_can_name_is_refused_in_words(world, capsys, change, name, told):
    plan = world.folder / "plan.json"
    plan.write_bytes(smoke_plan().model_copy(update=change).canonical())
    code, text = said(capsys, *proposing(world, plan, name))
    assert (code, "proposal-invalid" in text, told in text) == (2, True, True), text
    assert not (world.repo / "approvals/proposals").exists()

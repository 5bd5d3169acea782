"""Promise: the first documented step is gone by its own words, and what no approval can name is said, not dumped."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestrator.cli.main import main
from orchestrator.core.files import write_atomic
from orchestrator.pipeline import plan as planning_module
from orchestrator.trust.gate.machine import MANIFEST
from orchestrator.trust.proposals import read_proposal
from tests.gate.world import World, ingredients, make_world, smoke_plan
from tests.unit.gateway.support import PRICES
from tests.unit.trust.hostile_git import commit
from tests.unit.trust.support import APPROVERS, key_file

BOUNDS = ("--max-input-tokens", "1000000", "--max-output-tokens", "100000")


@pytest.fixture
def world(clean_folder) -> World:
    return make_world(clean_folder, ingredients())


def said(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = main(list(words))
    captured = capsys.readouterr()
    return code, " ".join((captured.out + captured.err).split())


def proposing(world: World, plan: Path) -> list[str]:
    words = ["approve", "propose", str(plan), "--id", "new-one", "--commit", world.first, *BOUNDS]
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


def test_all_that_is_signed_is_said_alike_before_and_at_the_signature(world, capsys, clean_folder):
    plan, where = clean_folder / "plan.json", ("--repository", str(world.repo), "--json")
    plan.write_bytes(smoke_plan().canonical())
    assert main([*proposing(world, plan), "--json"]) == 0
    proposed = json.loads(capsys.readouterr().out)["allows"]
    assert main(["approve", "show", "new-one", *where]) == 0
    assert json.loads(capsys.readouterr().out)["allows"] == proposed
    assert not (world.repo / "approvals/signed").exists()
    approver = str(key_file(clean_folder, APPROVERS[0]))
    assert main(["approve", "sign", "new-one", "--key", approver, *where]) == 0
    assert json.loads(capsys.readouterr().out)["allows"] == proposed
    for name in ("arms", "trials", "prices", "tokens", "spending", "source", "root", "plan"):
        assert any(line.startswith(name) for line in proposed), name


def test_the_next_step_after_a_proposal_is_to_read_it(world, capsys, clean_folder):
    plan = clean_folder / "plan.json"
    plan.write_bytes(smoke_plan().canonical())
    code, text = said(capsys, *proposing(world, plan))
    assert code == 0
    assert text.endswith(f"approve show new-one --repository {world.repo}")
    code, text = said(capsys, "approve", "show", "new-one", "--repository", str(world.repo))
    assert (code, "approve sign new-one --key YOUR-KEY.pem" in text) == (0, True)


def test_nothing_is_signed_whose_plan_cannot_be_read(world, capsys, clean_folder):
    plan = clean_folder / "plan.json"
    plan.write_bytes(smoke_plan().canonical())
    said(capsys, *proposing(world, plan))
    (kept,) = (world.repo / "approvals/plans").iterdir()
    kept.unlink()
    words = ["approve", "sign", "new-one", "--key", str(key_file(clean_folder, APPROVERS[0]))]
    code, text = said(capsys, *words, "--repository", str(world.repo))
    assert (code, "plan-not-there" in text) == (2, True)
    assert not (world.repo / "approvals/signed").exists()


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


def test_what_no_approval_can_name_is_refused_in_words(world, capsys):
    plan = world.folder / "plan.json"
    plan.write_bytes(smoke_plan().model_copy(update={"namespace": "default"}).canonical())
    code, text = said(capsys, *proposing(world, plan))
    assert (code, "proposal-invalid" in text, "namespace 'default'" in text) == (2, True, True)
    assert not (world.repo / "approvals/proposals").exists()


@pytest.mark.parametrize("name", ["0" * 40, "a" * 40])
def test_a_commit_that_the_branch_does_not_have_is_not_proposed(world, capsys, name):
    plan = world.folder / "plan.json"
    plan.write_bytes(smoke_plan().canonical())
    words = proposing(world, plan)
    words[words.index(world.first)] = name
    code, text = said(capsys, *words)
    assert (code, "commit-not-in-history" in text, "git rev-parse HEAD" in text) == (5, True, True)
    assert not (world.repo / "approvals/proposals").exists()


def test_a_commit_that_nobody_else_has_is_not_proposed(world, capsys):
    plan = world.folder / "plan.json"
    plan.write_bytes(smoke_plan().canonical())
    remote = world.repo / ".git/refs/remotes/origin/main"
    before = remote.read_bytes()
    commit(world.repo, {"more": b"x"})
    remote.write_bytes(before)
    code, text = said(capsys, *proposing(world, plan))
    assert (code, "head-not-at-remote" in text, "git push" in text) == (5, True, True)


@pytest.mark.parametrize(
    ("kind", "code", "told"),
    [("demonstration", 0, "0000000000000000"), ("organisation", 2, "install the supervisor first")],
)
def test_only_a_demonstration_is_proposed_without_an_installed_supervisor(
    clean_folder, capsys, kind, code, told
):
    made = ingredients()
    made.roles["kind"] = kind
    world = make_world(clean_folder, made)
    (world.system / MANIFEST).unlink()
    plan = clean_folder / "plan.json"
    plan.write_bytes(smoke_plan().canonical())
    found, text = said(capsys, *proposing(world, plan))
    assert (found, told in text) == (code, True), text


def test_an_installed_program_takes_the_clone_that_it_is_called_in(world, capsys, monkeypatch):
    monkeypatch.setattr("orchestrator.pipeline.gating.clone_root", lambda: None)
    monkeypatch.chdir(world.repo / "approvals")
    code, text = said(capsys, "approve", "status", "--system", str(world.system))
    assert (code, "smoke-one: published" in text) == (0, True)
    monkeypatch.chdir(world.folder)
    code, text = said(capsys, "approve", "status")
    assert (code, "no-repository" in text) == (2, True)

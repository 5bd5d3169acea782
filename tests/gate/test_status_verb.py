"""Promise: `approve status` says of each approval whether it still holds, and what to do next."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orchestrator.cli.main import main
from orchestrator.model.approval import GOVERNED
from orchestrator.trust.gate.machine import NONCES
from orchestrator.trust.nonces import NonceBook, Use
from orchestrator.trust.proposals import sign_proposal, write_plan, write_proposal
from orchestrator.trust.roles import load_roles
from tests.gate.world import ID, World, ingredients, make_world, smoke_plan
from tests.unit.trust.support import APPROVERS, CURATORS, as_bytes, key_file, roles

TRUSTED = load_roles(as_bytes(roles()), where="roles")


@pytest.fixture
def world(clean_folder) -> World:
    return make_world(clean_folder, ingredients())


def propose(world: World, signed: int = 0, **changes: Any) -> None:
    """Writes another proposal, signed by so many."""
    document = {**world.ingredients.approval, "approval_id": "another", **changes}
    approval = GOVERNED.validate_json(as_bytes(document))
    write_proposal(world.repo / "approvals", approval)
    write_plan(world.repo / "approvals", smoke_plan())
    for signer in APPROVERS[:signed]:
        sign_proposal(world.repo / "approvals", approval, signer, TRUSTED)


def use(world: World) -> None:
    nonce = world.ingredients.approval["nonce"]
    book = NonceBook(world.state / NONCES)
    book.reserve(Use(nonce, "a" * 64, "b" * 64, "run-7"), now_s=world.ingredients.now_s)


def said(world: World, capsys: pytest.CaptureFixture[str], system: Path | None = None) -> list[str]:
    where = ["--repository", str(world.repo), "--system", str(system or world.system)]
    assert main(["approve", "status", *where]) == 0
    lines: list[str] = capsys.readouterr().out.splitlines()
    return lines


def test_a_published_approval_goes_to_the_gate(world, capsys):
    lines = said(world, capsys)
    assert lines[0].startswith(f"{ID}: published, signed by")
    where = f"--repository {world.repo} --system {world.system}"
    assert lines[-1].endswith(f"gate PLAN --approval {ID} {where}")


def test_a_used_approval_is_shown_as_used_and_for_whom(world, capsys):
    use(world)
    lines = said(world, capsys)
    assert lines[0].startswith(f"{ID}: used by run run-7, signed by")
    assert "approve propose PLAN" in lines[-1]


def test_where_the_book_cannot_be_read_nobody_is_told_that_nothing_was_used(
    world, capsys, tmp_path
):
    use(world)
    lines = said(world, capsys, tmp_path / "nothing")
    assert lines[0].startswith(f"{ID}: published")
    assert "whether any was used cannot be seen from here" in " ".join(lines)
    assert "cannot be seen" not in " ".join(said(world, capsys))


def test_an_expired_approval_leads_to_another_proposal(world, capsys, monkeypatch):
    end = world.ingredients.approval["window"]["expires_s"]
    monkeypatch.setattr("orchestrator.core.clock.unix_time_s", lambda: float(end))
    lines = said(world, capsys)
    assert lines[0].startswith(f"{ID}: expired")
    assert "approve propose PLAN" in lines[-1]


@pytest.mark.parametrize(
    ("signed", "following"),
    [(0, "approve show another"), (1, "approve show another"), (2, "--curator CURATOR-KEY.pem")],
)
def test_a_proposal_leads_to_its_next_signature(world, capsys, signed, following):
    use(world)
    propose(world, signed, nonce="e" * 64)
    lines = said(world, capsys)
    assert lines[0].startswith("another: not published")
    assert following in lines[-1]


def test_what_was_proposed_under_an_older_root_is_neither_signed_nor_published(
    world, capsys, clean_folder
):
    root = {**world.ingredients.approval["root"], "sha256": "0" * 64}
    propose(world, 2, nonce="e" * 64, root=root)
    assert said(world, capsys)[0].startswith("another: of an older root")
    sign = ["approve", "sign", "another", "--repository", str(world.repo)]
    for option, signer in (("--key", APPROVERS[2]), ("--curator", CURATORS[0])):
        assert main([*sign, option, str(key_file(clean_folder, signer))]) == 5
        assert "root-not-the-approved-one" in capsys.readouterr().err


def test_a_program_reads_the_same(world, capsys):
    use(world)
    words = ["approve", "status", "--repository", str(world.repo), "--system", str(world.system)]
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    (one,) = found["approvals"]
    assert (one["state"], one["used_by"], found["uses_known"]) == ("used", "run-7", True)

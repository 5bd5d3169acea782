"""Promise: an official run is asked for with the ledger's key and a published approval, or it is said what is missing."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from orchestrator.cli import gate
from orchestrator.cli.command import own_command
from orchestrator.cli.main import main
from orchestrator.core.errors import ApprovalRefused
from orchestrator.pipeline.dispatched import Supervised
from orchestrator.trust.changes import withdraw_approval
from orchestrator.trust.gate import official
from orchestrator.trust.gate.official import validate
from tests.gate.world import ID, ingredients, make_world
from tests.live import live_plan
from tests.unit.trust.hostile_git import commit
from tests.unit.trust.support import APPROVERS, CURATORS, LEDGER, key, key_file


def said(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(list(words))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def asked_for_official(folder: Path, key: Path, approval: str = ID) -> list[str]:
    """Words that ask for a dispatch from a sound clone, of a plan of phase local."""
    world = make_world(folder / "world", ingredients())
    (world.system / "supervisor.manifest.json").touch()
    (folder / "s").touch()
    (folder / "plan.json").write_bytes(live_plan().canonical())
    words = ["official", str(folder / "plan.json"), "--approval", approval, "--key", str(key)]
    words += ["--socket", str(folder / "s"), "--system", str(world.system)]
    return [*words, "--repository", str(world.repo)]


@pytest.mark.parametrize("owner", [APPROVERS[0], key("nobody")])
def test_official_names_a_key_that_is_not_the_ledgers_as_missing(capsys, clean_folder, owner):
    code, out, err = said(capsys, *asked_for_official(clean_folder, key_file(clean_folder, owner)))
    told = " ".join(out.split())
    assert (code, "found 1 things missing" in " ".join(err.split())) == (5, True)
    assert "(seal-not-by-ledger)" in told
    assert f"{LEDGER.public.keyid[:16]}, found {owner.public.keyid[:16]}" in told


def test_official_names_an_approval_that_nobody_published_as_missing(capsys, clean_folder):
    ledger = key_file(clean_folder, LEDGER)
    code, out, err = said(capsys, *asked_for_official(clean_folder, ledger, approval="unknown"))
    assert (code, "found 1 things missing" in " ".join(err.split())) == (5, True)
    assert "missing: an approval unknown in the trust root" in " ".join(out.split())


def test_official_names_an_approval_that_was_withdrawn(capsys, clean_folder):
    words = asked_for_official(clean_folder, key_file(clean_folder, LEDGER))
    withdraw_approval(
        clean_folder / "world/repo/approvals", ID, CURATORS[0], reason="x", now_s=int(time.time())
    )
    code, out, _ = said(capsys, *words)
    told = " ".join(out.split())
    assert (code, told.count("missing:")) == (5, 1)
    assert f"missing: an approval {ID} that holds: it was withdrawn" in told


def test_official_names_what_was_not_pushed(capsys, clean_folder):
    words = asked_for_official(clean_folder, key_file(clean_folder, LEDGER))
    remote = clean_folder / "world/repo/.git/refs/remotes/origin/main"
    before = remote.read_bytes()
    commit(clean_folder / "world/repo", {"more": b"x"})
    remote.write_bytes(before)
    code, out, _ = said(capsys, *words)
    told = " ".join(out.split())
    assert (code, told.count("missing:")) == (5, 1)
    assert "missing: a HEAD that others have (head-not-at-remote)" in told
    assert "git push" in told


def test_official_names_a_command_that_works_here_for_a_root_that_is_not_there(
    capsys, clean_folder
):
    words = asked_for_official(clean_folder, key_file(clean_folder, LEDGER))
    (clean_folder / "world/repo/approvals").rename(clean_folder / "away")
    code, out, _ = said(capsys, *words)
    assert (code, f"`{own_command()} trust init`" in " ".join(out.split())) == (5, True)


def test_official_says_what_is_wrong_with_a_trust_root_that_does_not_hold(capsys, clean_folder):
    words = asked_for_official(clean_folder, key_file(clean_folder, LEDGER))
    first = clean_folder / "world/repo/approvals/tuf/metadata/1.root.json"
    first.write_bytes(b"{}")
    code, out, _ = said(capsys, *words)
    assert (code, "missing: a trust root that holds (" in out) == (5, True)


def test_official_with_everything_in_place_and_nobody_at_the_socket_starts_nothing(
    capsys, clean_folder, monkeypatch
):
    monkeypatch.setenv("MEMTRIAL_RESULTS", str(clean_folder / "results"))
    code, _, err = said(capsys, *asked_for_official(clean_folder, key_file(clean_folder, LEDGER)))
    assert (code, "phase-local" in err) == (5, True)
    smoke = live_plan(phase="smoke", namespace="smoke-one")
    way = Supervised(smoke, ID, sealing_keyid="0" * 64, path=clean_folder / "s")
    with pytest.raises(ApprovalRefused) as refused:
        way.approve("run-1")
    assert refused.value.reference == "supervisor-unreachable"
    assert not (clean_folder / "results").exists()


def test_a_pass_names_the_whole_next_command(capsys, clean_folder, monkeypatch):
    world = make_world(clean_folder, ingredients())
    plan = clean_folder / "plan.json"
    plan.write_bytes(world.ingredients.plan_data)
    monkeypatch.setattr(gate, "_again", lambda _: None)
    monkeypatch.setattr(official, "validate", lambda _: validate(world.asked()))
    where = ("--repository", str(world.repo), "--system", str(world.system))
    code, out, _ = said(capsys, "gate", str(plan), "--approval", ID, *where)
    wanted = f"next: make official PLAN={plan} APPROVAL={ID} KEY=LEDGER-KEY.pem"
    assert (code, wanted in " ".join(out.split())) == (0, True), out

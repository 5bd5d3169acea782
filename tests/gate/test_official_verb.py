"""Promise: an official run is asked for with the ledger's key and a published approval, or it is said what is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.cli.main import main
from orchestrator.core.errors import ApprovalRefused
from orchestrator.pipeline.dispatched import Supervised
from tests.gate.world import ID, ingredients, make_world
from tests.live import live_plan
from tests.unit.trust.support import APPROVERS, LEDGER, key, key_file


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

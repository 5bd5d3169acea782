"""Promise: verbs about approvals refuse with exit 5 and say what is missing, before anything is read or started."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from orchestrator.cli.main import main
from orchestrator.cli.plan import _next
from tests.live import live_plan
from tests.recorded import TINY, make_plan


def said(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(list(words))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_official_lists_everything_that_is_missing_at_once(capsys, tmp_path):
    system = str(tmp_path / "system")
    code, out, err = said(
        capsys,
        "official",
        "--system",
        system,
        "--socket",
        str(tmp_path / "s"),
        "--repository",
        str(tmp_path),
    )
    assert code == 5
    for missing in (
        "a plan",
        "an approval",
        "the ledger's key",
        "a trust root",
        "gate.json",
        "root.json",
        "a supervisor at",
    ):
        # Where a line is broken depends on how long the folder's name is.
        assert f"missing: {missing}" in " ".join(out.replace(f"{system}/", "").split()), missing
    assert "nothing was started" in err


def test_a_live_plan_does_not_run_without_approval_and_a_scripted_one_needs_none(capsys, tmp_path):
    plan = tmp_path / "plan.json"
    plan.write_bytes(live_plan().canonical())
    for words in (("run", str(plan)), ("run", str(plan), "--live")):
        code, _, err = said(capsys, *words)
        assert (code, "nothing was contacted" in err) == (5, True)
    code, _, err = said(capsys, "run", str(plan), "--approval", "x")
    assert (code, "approval-without-live" in err) == (2, True)
    plan.write_bytes(make_plan(TINY).canonical())
    code, _, err = said(capsys, "approve", "local", str(plan), "--max-usd", "1")
    assert (code, "plan-not-live" in err) == (5, True)


def test_a_plan_of_phase_smoke_is_dispatched_by_a_supervisor_alone(capsys, tmp_path):
    plan = tmp_path / "plan.json"
    plan.write_bytes(live_plan(phase="smoke", namespace="smoke-one").canonical())
    for _ in range(2):
        # With no approval beside it, and with one.
        code, _, err = said(capsys, "run", str(plan), "--live")
        assert (code, "supervisor-dispatches" in err, "approve local" in err) == (5, True, False)
        (tmp_path / "plan.approval.dsse.json").write_bytes(b"{}")


@pytest.mark.parametrize("name", ["none.json", "no-folder/none.json", "."])
def test_a_price_table_that_is_not_there_is_named_as_it_was_given(
    capsys, tmp_path, monkeypatch, name
):
    monkeypatch.chdir(tmp_path)
    words = ["plan", "--agent", "chat", "--dry-run", "--model", "m", "--max-usd", "5"]
    code, _, err = said(capsys, *words, "--prices", name)
    told = " ".join(err.split())
    assert (code, "prices-not-readable" in told, f"at {name}, a plain" in told) == (2, True, True)


def test_what_is_approved_is_said_and_the_file_lies_beside_the_plan(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("MEMTRIAL_CONFIG", str(tmp_path / "config"))
    plan = tmp_path / "plan.json"
    plan.write_bytes(live_plan().canonical())
    code, out, _ = said(capsys, "approve", "local", str(plan), "--max-usd", "5")
    assert code == 0
    assert "at most 5.00 USD in all" in out
    assert out.splitlines()[-1].endswith("--live")
    envelope = json.loads((tmp_path / "plan.approval.dsse.json").read_bytes())
    assert envelope["payloadType"] == "application/vnd.memtrial.local-approval.v1+json"
    code, _, err = said(capsys, "approve", "local", str(plan), "--max-usd", "4.99")
    assert (code, "cap-above-approval" in err) == (5, True)


@pytest.mark.parametrize(
    ("more", "reference"),
    [
        (["--model", "m"], "live-needs-prices-and-cap"),
        (["--prices", "p.json"], "model-not-given"),
        (["--max-usd", "5"], "model-not-given"),
        (["--upstream", "https://x.example"], "model-not-given"),
    ],
)
def test_a_live_plan_is_asked_for_with_model_prices_and_cap_together(capsys, more, reference):
    code, _, err = said(capsys, "plan", "--agent", "chat", "--dry-run", *more)
    assert (code, reference in err) == (2, True)


@pytest.mark.parametrize(
    "upstream",
    ["http://api.example.com", "https://x.example/v1", "ftp://x", "https://u@x.example", ""],
)
def test_calls_go_over_tls_or_to_this_machine_alone(capsys, upstream, tmp_path):
    prices = tmp_path / "prices.json"
    prices.write_bytes(b"{}")
    words = ["plan", "--agent", "chat", "--dry-run", "--model", "m", "--prices", str(prices)]
    code, _, err = said(capsys, *words, "--max-usd", "5", "--upstream", upstream)
    assert (code, "upstream-invalid" in err) == (2, True)


@pytest.mark.parametrize(
    ("phase", "verb"), [("local", "approve local"), ("smoke", "approve propose")]
)
def test_a_live_plan_names_the_approval_of_its_phase_as_the_next_step(phase, verb):
    asked = argparse.Namespace(
        phase=phase, dry_run=False, model="m", out=Path("p.json"), max_usd="5", words=[]
    )
    assert _next(asked).startswith(f"{verb} p.json")

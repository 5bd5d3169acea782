"""A person asks what became of one trial, and a plan says which arm is missing to tell."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestrator.cli.main import main
from orchestrator.pipeline.options import PlanRequest
from tests.recorded import record_run

REQUEST = PlanRequest(
    agents=("follower",), tasks=("depotfeed-returns",), conditions=("no_memory", "raw_fts")
)
LOST = "depotfeed-returns/raw_fts/follower/e1"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record_run(tmp_path_factory.mktemp("runs"), REQUEST)


def test_a_lost_trial_is_told_fact_by_fact(run, capsys):
    assert main(["report", str(run), "--explain", LOST]) == 0
    out = capsys.readouterr().out
    for part in (
        "charge: retrieval, relevant_memory_missing (f1)",
        "captured ep07-e04, ep07-e05",
        "not ranked",
        "memory contract: verified",
    ):
        assert part in out
    assert out.splitlines()[-1].startswith("next: ")


def test_the_same_as_a_document(run, capsys):
    assert main(["report", str(run), "--explain", LOST, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["trial"]["charge"]["stage"] == "retrieval"
    assert [fact["fact_id"] for fact in told["trace"]["facts"]] == ["f1", "f2"]


def test_a_trial_without_memory_has_no_charge(run, capsys):
    assert main(["report", str(run), "--explain", "depotfeed-returns/no_memory/follower/e1"]) == 0
    assert "no memory: this arm has none" in capsys.readouterr().out


def test_an_unknown_trial_names_the_closest(run, capsys):
    assert main(["report", str(run), "--explain", "depotfeed-returns/raw_fts/follower/e9"]) == 2
    assert LOST in capsys.readouterr().err


def plan(capsys, *words: str) -> dict[str, object]:
    assert main(["plan", "--agent", "follower", "--dry-run", "--json", *words]) == 0
    told: dict[str, object] = json.loads(capsys.readouterr().out)
    return told


def test_a_plan_offers_the_oracle_arm_where_readers_could_not_be_judged(capsys):
    assert plan(capsys)["oracle_arm_missing"] is True
    assert plan(capsys, "--condition", "no_memory")["oracle_arm_missing"] is False
    both = plan(capsys, "--condition", "raw_fts", "--condition", "oracle_evidence")
    assert both["oracle_arm_missing"] is False


def test_the_offer_is_a_command_that_keeps_the_arms(capsys):
    assert main(["plan", "--agent", "follower", "--dry-run", "--condition", "raw_fts"]) == 0
    offer = " ".join(capsys.readouterr().out.split()).partition("to have it")[2]
    assert "--condition raw_fts --condition oracle_evidence`" in offer

"""Promise: what an agent's client does with its tools ends a trial as the evidence says, and a stranger says the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.audit.trust import Trust
from orchestrator.audit.verify import verify_bundle
from orchestrator.audit.view import FolderView
from orchestrator.memory.tools import server
from orchestrator.model.attribution import Failure, PathStage
from orchestrator.model.outcome import Outcome
from orchestrator.model.record import Stage
from orchestrator.model.report import TrialRow
from orchestrator.pipeline.options import PlanRequest
from orchestrator.report.build import build_report
from tests.played_tools import TOOLS, TOOLS_ARM, Client, document_of, record_tool_run
from tests.recorded import seal

ALONE = PlanRequest(agents=TOOLS.agents, tasks=TOOLS.tasks, conditions=(TOOLS_ARM,))


def row_of(folder: Path) -> TrialRow:
    (row,) = build_report(folder).trials
    return row


def holds_for_a_stranger(folder: Path) -> bool:
    seal(folder)
    view = FolderView(folder)
    return not verify_bundle(view, Trust(now="2099-01-01T00:00:00Z"), name="b").failed


def test_a_client_that_says_it_has_no_server_leaves_no_trial(tmp_path):
    folder = record_tool_run(tmp_path, ALONE, client=Client(status="failed"))
    proof = document_of(folder, TOOLS_ARM, Stage.ACT, "injection-proof")
    assert (proof["result"], proof["stated"]) == ("unconnected", "failed")
    assert row_of(folder).outcome is Outcome.INADMISSIBLE
    assert holds_for_a_stranger(folder)


def test_a_client_that_lets_its_tools_go_has_a_trial_of_its_own(tmp_path):
    folder = record_tool_run(tmp_path, ALONE, client=Client(drops=True))
    proof = document_of(folder, TOOLS_ARM, Stage.ACT, "injection-proof")
    assert (proof["result"], proof["blame"]) == ("dropped", "agent")
    assert row_of(folder).outcome is Outcome.COMPLETED
    assert holds_for_a_stranger(folder)


def test_an_agent_that_asks_beyond_the_bound_has_met_a_budget(tmp_path, monkeypatch):
    monkeypatch.setattr(server, "MAX_CALLS", 0)
    folder = record_tool_run(tmp_path, ALONE, does="all")
    assert document_of(folder, TOOLS_ARM, Stage.ACT, "tool-log")["bound_met"] == "calls"
    row = row_of(folder)
    assert (row.outcome, row.status) == (Outcome.BUDGET, "unresolved")
    assert holds_for_a_stranger(folder)


@pytest.mark.parametrize(
    ("client", "subreason"),
    [(Client(asks=False), "never-asked"), (Client(hands_on=False), "not-handed-on")],
)
def test_a_failed_trial_of_tools_is_charged_to_what_the_agent_did_with_them(
    tmp_path, client, subreason
):
    folder = record_tool_run(tmp_path, ALONE, client=client)
    charge = row_of(folder).charge
    assert charge is not None
    assert (charge.stage, charge.failure, charge.subreason) == (
        PathStage.READER_USE,
        Failure.RETRIEVED_BUT_IGNORED,
        subreason,
    )
    assert holds_for_a_stranger(folder)


def test_a_stranger_follows_the_facts_of_tools_again(tmp_path):
    folder = record_tool_run(tmp_path, ALONE)
    seal(folder)
    answer = verify_bundle(FolderView(folder), Trust(now="2099-01-01T00:00:00Z"), name="b")
    (check,) = [check for check in answer.checks if check.name == "memory"]
    assert (check.status, check.count, check.detail) == ("ok", 1, "1 verified")


def test_tools_over_an_empty_store_are_charged_as_a_placebo_in_the_prompt_is(tmp_path):
    placebo = PlanRequest(
        agents=TOOLS.agents, tasks=TOOLS.tasks, conditions=("tool_presence_placebo",)
    )
    folder = record_tool_run(tmp_path, placebo)
    row = row_of(folder)
    assert row.memory_status == "not_applicable"
    assert row.charge is not None
    assert row.charge.to == "stage_opaque"
    assert holds_for_a_stranger(folder)

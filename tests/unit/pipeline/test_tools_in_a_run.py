"""Promise: what an agent's client does with its tools ends a trial as the evidence says, and a stranger says the same."""

from __future__ import annotations

from pathlib import Path

from orchestrator.audit.trust import Trust
from orchestrator.audit.verify import verify_bundle
from orchestrator.audit.view import FolderView
from orchestrator.memory.tools import server
from orchestrator.model.outcome import Outcome
from orchestrator.model.record import Stage
from orchestrator.model.report import TrialRow
from orchestrator.report.build import build_report
from tests.played_tools import TOOLS, TOOLS_ARM, Client, document_of, record_tool_run
from tests.recorded import seal

ALONE = TOOLS.__class__(agents=TOOLS.agents, tasks=TOOLS.tasks, conditions=(TOOLS_ARM,))


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

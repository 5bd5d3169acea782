"""Promise: a memory that is given as tools and broke its contract has failed for its arm, as any other memory has."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from orchestrator.attest import layout
from orchestrator.audit.trust import Trust
from orchestrator.audit.verify import verify_bundle
from orchestrator.audit.view import FolderView
from orchestrator.memory.reference.adapter import ReferenceAdapter
from orchestrator.memory.tokens import TokenCounter
from orchestrator.model.attribution import Failure
from orchestrator.model.lifecycle import Query, Ranked
from orchestrator.model.record import Stage
from orchestrator.model.toolcalls import TOOL_LOG
from orchestrator.report.build import build_report
from tests.played_tools import TOOLS_ARM, document_of, record_tool_run
from tests.recorded import seal
from tests.unit.testing import planted


class Reference(planted.CrashesInSettle):
    """Stands in the arm's place and breaks its contract."""

    name = "reference"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    found = record_tool_run(
        tmp_path_factory.mktemp("run"), adapters={TOOLS_ARM: Reference}, does="all"
    )
    seal(found)
    return found


@pytest.fixture(scope="module")
def report(folder):
    return build_report(folder)


@pytest.fixture(scope="module")
def row(report):
    return next(row for row in report.trials if row.condition_id == TOOLS_ARM)


def test_the_arm_has_won_nothing_and_the_arm_beside_it_keeps_its_own(report):
    counted = {arm.condition_id: (arm.resolved.passed, arm.resolved.of) for arm in report.arms}
    assert counted == {"no_memory": (1, 1), TOOLS_ARM: (0, 1)}


def test_the_broken_contract_stands_beside_the_verdict(row):
    assert (row.status, row.memory_status) == ("resolved", "contract_failure")
    assert "broken at settle, so it counts as failed for its arm" in row.why


def test_it_is_charged_to_the_step_that_broke_and_counted_in_the_memory_of_its_arm(report, row):
    assert row.charge is not None
    assert row.charge.failure is Failure.DURABLE_FACT_MISSED
    (arm,) = report.memory
    assert (arm.condition_id, arm.failed, arm.contract_failures) == (TOOLS_ARM, 1, 1)
    assert (arm.compared, arm.helped, arm.hurt) == (1, 0, 1)


def test_the_summary_of_the_run_counts_what_the_report_counts(folder, report):
    (line,) = (folder / layout.SUMMARY).read_bytes().splitlines()
    summary = json.loads(base64.b64decode(json.loads(line)["payload"]))["predicate"]
    assert summary["arms"] == [
        {
            "agent": arm.agent,
            "condition": arm.condition_id,
            "verdicts": arm.verdicts,
            "resolved": arm.resolved.passed,
        }
        for arm in report.arms
    ]


def test_a_stranger_recomputes_the_same(folder):
    answer = verify_bundle(FolderView(folder), Trust(now="2099-01-01T00:00:00Z"), name="b")
    assert answer.failed == ()


class CrashesWhenAsked(ReferenceAdapter):
    """Lives its whole life, and raises at the first question of an agent."""

    def __init__(self) -> None:
        super().__init__(TokenCounter(), embedder=None)
        self._served = False

    def reopen(self, workdir: Path) -> None:
        super().reopen(workdir)
        self._served = True

    def retrieve(self, query: Query) -> Ranked:
        if self._served:
            raise ZeroDivisionError
        return super().retrieve(query)


def test_a_memory_that_breaks_while_it_is_asked_has_failed_for_its_arm_too(tmp_path):
    found = record_tool_run(tmp_path, adapters={TOOLS_ARM: CrashesWhenAsked}, does="all")
    row = next(r for r in build_report(found).trials if r.condition_id == TOOLS_ARM)
    assert (row.status, row.memory_status) == ("resolved", "contract_failure")
    assert row.charge is not None
    assert row.charge.failure is Failure.RELEVANT_MEMORY_MISSING


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A run whose memory kept its contract and was asked."""
    found = record_tool_run(tmp_path_factory.mktemp("kept"))
    seal(found)
    return found


def test_a_note_that_a_tool_gave_is_known_when_it_is_cited(kept):
    metrics = document_of(kept, TOOLS_ARM, Stage.GRADE, "reader-metrics")
    log = document_of(kept, TOOLS_ARM, Stage.ACT, TOOL_LOG)
    assert set(metrics["cited_in_messages"]) == {log["calls"][0]["item_ids"][0]}
    assert metrics["cited_unknown"] == []


def test_a_stranger_knows_those_notes_too(kept):
    answer = verify_bundle(FolderView(kept), Trust(now="2099-01-01T00:00:00Z"), name="b")
    assert answer.failed == ()


def test_a_memory_of_tools_that_kept_its_contract_is_told_so_and_its_failure_has_a_charge(tmp_path):
    report = build_report(record_tool_run(tmp_path, does="nothing"))
    (arm,) = report.memory
    assert (arm.verified, arm.contract_failures, arm.failed) == (1, 0, 1)
    assert [(c.to, c.count) for c in arm.charges] == [("undetermined_no_oracle", 1)]

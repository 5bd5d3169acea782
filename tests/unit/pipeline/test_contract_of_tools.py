"""Promise: a memory that is given as tools and broke its contract has failed for its arm, as any other memory has."""

from __future__ import annotations

import base64
import json

import pytest

from orchestrator.attest import layout
from orchestrator.audit.trust import Trust
from orchestrator.audit.verify import verify_bundle
from orchestrator.audit.view import FolderView
from orchestrator.model.attribution import Failure
from orchestrator.report.build import build_report
from orchestrator.report.charges import render_charges
from tests.played_tools import TOOLS_ARM, record_tool_run
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


def test_a_memory_of_tools_that_kept_its_contract_is_told_so_and_its_failures_are_not_followed(
    tmp_path,
):
    report = build_report(record_tool_run(tmp_path, does="nothing"))
    (arm,) = report.memory
    assert (arm.verified, arm.contract_failures, arm.failed, arm.charges) == (1, 0, 1, ())
    assert "not followed" in render_charges(report)

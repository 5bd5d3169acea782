"""Promise: a memory that broke its contract has failed for its arm, also where the agent passes every test without it.

Verdict, contract status and outcome of the attempt stay what they are, each for itself.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.audit.memory import AuditFacts, verify_audit
from orchestrator.cli.main import main
from orchestrator.ledger.blobs import BlobStore
from orchestrator.model.attribution import Failure
from orchestrator.model.memory import Injection, Remembered
from orchestrator.model.outcome import Outcome
from orchestrator.model.plan import Plan
from orchestrator.model.record import Stage
from orchestrator.model.report import RunReport
from orchestrator.model.trace import TRACE, MemoryTrace
from orchestrator.model.verdict import Verdict
from orchestrator.pipeline.options import PlanRequest
from orchestrator.report.build import build_report
from orchestrator.report.memory import Cells, Told
from orchestrator.report.terminal import render_report
from orchestrator.scoring.contract import Audited, audit_of
from tests.recorded import record_run, seal
from tests.unit.pipeline.test_memory_failures import as_tail, attempts, document
from tests.unit.testing import planted

ARM = "raw_history_tail"
REQUEST = PlanRequest(
    agents=("oracle",), tasks=("cachetools-account-key",), conditions=("no_memory", ARM)
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    broken = as_tail(planted.CrashesInSettle)
    return record_run(tmp_path_factory.mktemp("run"), REQUEST, adapters={ARM: broken})


def trace_of(folder: Path) -> MemoryTrace:
    (attempt,) = attempts(folder)[ARM]
    (artifact,) = [a for a in attempt.stages[Stage.GRADE].artifacts if a.name == TRACE]
    return MemoryTrace.parse(BlobStore(folder / "blobs").get(artifact.sha256), where=TRACE)


@pytest.fixture(scope="module")
def report(folder: Path) -> RunReport:
    return build_report(folder)


def test_the_arm_has_won_nothing_and_the_arm_beside_it_keeps_its_own(report):
    counted = {arm.condition_id: (arm.resolved.passed, arm.resolved.of) for arm in report.arms}
    assert counted == {"no_memory": (1, 1), ARM: (0, 1)}


def test_verdict_contract_and_outcome_are_told_apart(report):
    (row,) = [row for row in report.trials if row.condition_id == ARM]
    assert (row.status, row.failure_reason) == ("resolved", None)
    assert (row.memory_status, row.outcome) == ("contract_failure", Outcome.COMPLETED)
    assert row.why.startswith("all hidden tests and the base suite pass; ")
    assert "broken at settle, so it counts as failed for its arm" in row.why


def test_it_is_charged_to_the_step_that_broke_and_hurts_where_no_memory_solves_the_task(report):
    (row,) = [row for row in report.trials if row.condition_id == ARM]
    assert row.charge is not None
    assert row.charge.failure is Failure.DURABLE_FACT_MISSED
    assert row.charge.subreason == "contract-crashed"
    (arm,) = [arm for arm in report.memory if arm.condition_id == ARM]
    assert (arm.failed, arm.contract_failures, arm.helped, arm.hurt) == (1, 1, 0, 1)
    assert sum(item.count for item in arm.charges) == 1
    assert "failed for its arm" in render_report(report)


@pytest.mark.parametrize(("control", "effect"), [(False, (False, False)), (True, (False, True))])
def test_the_audit_of_such_a_trial_never_says_that_memory_helped(folder, control, effect):
    (attempt,) = attempts(folder)[ARM]
    seen = trace_of(folder)
    remembered = document(folder, attempt, Stage.REMEMBER, Remembered)
    injection = document(folder, attempt, Stage.INJECT, Injection)
    verdict = document(folder, attempt, Stage.GRADE, Verdict)
    audit = audit_of(Audited("1" * 64, seen.trial, remembered, injection, seen, verdict, control))
    assert audit.status == "contract_failure"
    assert (audit.resolved, audit.memory_helped, audit.memory_hurt) == (True, *effect)
    facts = AuditFacts("1" * 64, seen.trial, True, remembered, injection, seen)
    assert verify_audit(audit.canonical(), facts, where="audit") == "contract_failure"


def test_an_oracle_trial_whose_contract_broke_tells_nothing_of_the_agent(folder):
    (attempt,) = attempts(folder)[ARM]
    seen = trace_of(folder)
    assert seen.failure is not None
    plan = Plan.parse((folder / "plan.json").read_bytes(), where="plan.json")
    plan_trial = next(t for t in plan.trials if t.condition_id == ARM)
    as_oracle = plan_trial.model_copy(update={"condition_id": "oracle_evidence"})
    verdict = document(folder, attempt, Stage.GRADE, Verdict)
    assert Cells([Told(as_oracle, verdict, None)]).oracle(plan_trial) is True
    assert Cells([Told(as_oracle, verdict, seen)]).oracle(plan_trial) is None


def test_a_stranger_recomputes_the_same(tmp_path, capsys):
    broken = as_tail(planted.CrashesInSettle)
    folder = record_run(tmp_path, REQUEST, adapters={ARM: broken})
    seal(folder)
    assert main(["verify", str(folder)]) == 0, capsys.readouterr()


@pytest.mark.parametrize("kind", [planted.SaysThatItIsAFile, planted.SaysThatItIsNothing])
def test_a_system_that_calls_itself_no_memory_cannot_make_its_failure_vanish(tmp_path, kind):
    report = build_report(record_run(tmp_path, REQUEST, adapters={ARM: as_tail(kind)}))
    (row,) = [row for row in report.trials if row.condition_id == ARM]
    (arm,) = report.memory
    assert row.memory_status == "contract_failure"
    assert (arm.contract_failures, arm.not_applicable, arm.failed) == (1, 0, 1)

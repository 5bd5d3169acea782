"""Promise: minutes are stated where logs give them, and compared only where both arms have them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestrator.model.curation import maintenance_s, parse_curator_log
from orchestrator.model.plan import CuratedPin, Plan
from orchestrator.model.review import ReviewPin
from orchestrator.pipeline.options import PlanRequest
from orchestrator.report.maintenance import maintenance_limits, maintenance_of, render_maintenance
from tests.recorded import make_plan
from tests.unit.report.test_terminal import report_with

TASK = "depotfeed-returns"
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def plan() -> Plan:
    return make_plan(
        PlanRequest(
            agents=("follower",),
            tasks=(TASK,),
            conditions=("no_memory", "curated_file_budgeted", "reference_e2e", "raw_fts"),
        )
    )


def curated(plan: Plan, seconds: int | None) -> tuple[CuratedPin, ...]:
    kind = "synthetic" if seconds is None else "human"
    (pin,) = plan.curated
    return (pin.model_copy(update={"curator_kind": kind, "maintenance_s": seconds}),)


def reviews(held: int, resolved: int, seconds: int) -> tuple[ReviewPin, ...]:
    return (
        ReviewPin(
            condition_id="reference_e2e",
            task_id=TASK,
            log_sha256="0" * 64,
            held=held,
            resolved=resolved,
            seconds_spent=seconds,
        ),
    )


def shown(plan: Plan) -> str:
    return render_maintenance(
        report_with("x").model_copy(update={"maintenance": maintenance_of(plan)})
    )


def test_only_primary_arms_with_memory_have_a_row(plan):
    assert [row.condition_id for row in maintenance_of(plan)] == [
        "curated_file_budgeted",
        "reference_e2e",
    ]


def test_with_both_logs_both_minutes_stand_and_nothing_is_insufficient(plan):
    both = plan.model_copy(update={"curated": curated(plan, 600), "reviews": reviews(2, 2, 90)})
    text = shown(both)
    assert "  curated_file_budgeted: 10.0 minutes (the curators' logs of 1 file)" in text
    assert "  reference_e2e: 1.5 minutes (1 review log, 2 answers)" in text
    assert "INSUFFICIENT" not in text
    assert maintenance_limits(both) == ()


def test_a_file_that_a_program_kept_has_no_minutes(plan):
    one = plan.model_copy(update={"curated": curated(plan, None), "reviews": reviews(2, 2, 90)})
    text = shown(one)
    assert "  curated_file_budgeted: unknown (1 file kept by a program)" in text
    assert "  comparison: INSUFFICIENT (unknown for curated_file_budgeted)" in text


def test_a_candidate_without_an_answer_leaves_the_arm_unknown(plan):
    one = plan.model_copy(update={"curated": curated(plan, 600), "reviews": reviews(2, 1, 90)})
    assert "  reference_e2e: unknown (1 held candidate still without an answer)" in shown(one)


def test_a_log_that_serves_two_tasks_counts_once(plan):
    (pin,) = reviews(2, 2, 90)
    both = (pin, pin.model_copy(update={"task_id": "another"}))
    text = shown(plan.model_copy(update={"curated": curated(plan, 600), "reviews": both}))
    assert "  reference_e2e: 1.5 minutes (1 review log, 2 answers)" in text


def test_without_any_minutes_nothing_is_shown_and_the_limit_is_told(plan):
    assert shown(plan) == ""
    (said,) = maintenance_limits(plan)
    assert "what reference_e2e held back" in said
    assert said.endswith("INSUFFICIENT.")


def test_the_minutes_of_a_curator_are_the_sum_of_the_steps(tmp_path):
    value = json.loads((ROOT / "fixtures/curated" / TASK / "curator-log.json").read_bytes())
    synthetic = parse_curator_log(json.dumps(value).encode(), where="log")
    assert maintenance_s(synthetic) is None
    for step in value["steps"]:
        step["minutes_spent"] = 0.5
    value |= {"curator_kind": "human", "minutes_by": "report"}
    human = parse_curator_log(json.dumps(value).encode(), where="log")
    assert maintenance_s(human) == 30 * len(value["steps"])

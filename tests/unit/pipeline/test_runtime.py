"""Promise: the runtime is one for all arms, fixed in the plan, and what really ran is on record."""

from __future__ import annotations

import json
from typing import Any

import pytest

from orchestrator.core.canonical import canonical_bytes
from orchestrator.core.errors import DocumentError
from orchestrator.ledger.chain import read_entries
from orchestrator.ledger.history import replay
from orchestrator.model.outcome import Outcome
from orchestrator.model.plan import Plan, setting_of
from orchestrator.model.record import Prepared, Stage
from orchestrator.pipeline.fits import request_of
from orchestrator.pipeline.options import PlanRequest
from orchestrator.pipeline.plan import build_plan
from tests.fakes.sandbox import FakeSandbox
from tests.unit.pipeline.conftest import AT_ONCE, IMAGE, ROOT

BOTH: dict[str, Any] = {"tasks": ("depotfeed-returns",), "conditions": ("no_memory", "raw_fts")}


@pytest.fixture
def planned(fixtures):
    def make(runtime: str | None) -> Plan:
        return build_plan(
            PlanRequest(agents=("noop",), runtime=runtime, **BOTH),
            fixtures=fixtures,
            images=ROOT / "images",
            image_pins=lambda _: (IMAGE, IMAGE),
        )

    return make


def test_a_plan_without_a_choice_says_null_and_one_with_a_choice_is_another_plan(planned):
    default, named = planned(None), planned("runsc")
    assert json.loads(default.canonical())["runtime"] is None
    assert json.loads(named.canonical())["runtime"] == "runsc"
    assert default.profile_sha256 != named.profile_sha256
    assert default.arms[0].environment_sha256 != named.arms[0].environment_sha256


def test_the_plan_is_rebuilt_with_its_own_runtime(planned):
    assert request_of(planned("runsc")).runtime == "runsc"
    assert request_of(planned(None)).runtime is None


@pytest.mark.parametrize("runtime", ["runc", None])
def test_an_edited_runtime_contradicts_the_settings_of_the_arms(planned, runtime):
    document = json.loads(planned("runsc").canonical())
    document["runtime"] = runtime
    with pytest.raises(DocumentError, match="not what the plan's pins give"):
        Plan.parse(canonical_bytes(document), where="plan.json")


def run_on(engine_took, planned_runtime, planned, run_with):
    plan = planned(planned_runtime)
    arms = tuple(
        setting_of(
            plan.task(arm.task_id),
            arm.condition_id,
            plan.agents,
            AT_ONCE,
            plan.profile_sha256,
            runtime=plan.runtime,
        )
        for arm in plan.arms
    )
    plan = plan.model_copy(update={"retry": AT_ONCE, "arms": arms})
    run = run_with(plan, FakeSandbox(runtime=engine_took))
    record = replay(read_entries(run.folder / "ledger.jsonl")[0])
    return run, [record.trial(trial.key).attempts for trial in plan.trials]


def test_what_ran_the_container_is_on_record_also_where_the_plan_names_nothing(planned, run_with):
    run, trials = run_on("crun", None, planned, run_with)
    for attempts in trials:
        done = attempts[-1].stages[Stage.PREPARE]
        prepared = Prepared.parse(run.blobs.get(done.document_sha256), where="prepare")
        assert prepared.runtime == "crun"


def test_an_engine_that_takes_another_runtime_than_planned_breaks_the_promise(planned, run_with):
    _, trials = run_on("runc", "runsc", planned, run_with)
    ended = [attempt.ended for attempts in trials for attempt in attempts]
    assert [end.outcome for end in ended] == [Outcome.INADMISSIBLE] * 2
    assert "expected container runtime runsc, found that the engine took runc" in ended[0].error

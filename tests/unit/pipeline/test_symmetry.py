"""Promise: arms of one task differ in their memory and in nothing else, or there is no plan."""

from __future__ import annotations

import json
import shutil
from contextlib import contextmanager
from pathlib import Path

import pytest

from orchestrator.core.canonical import canonical_bytes
from orchestrator.core.errors import DocumentError
from orchestrator.model.plan import Plan
from orchestrator.model.symmetry import PARTS
from orchestrator.pipeline.options import PlanRequest
from orchestrator.pipeline.plan import build_plan
from orchestrator.pipeline.run import read_plan
from orchestrator.sandbox.harden import Uids, agent_profile, create_options
from tests.fakes.sandbox import FakeSandbox
from tests.unit.pipeline.conftest import IMAGE, ROOT

BOTH = {"tasks": ("depotfeed-returns",), "conditions": ("no_memory", "raw_fts")}


def edited(plan: Plan, change) -> bytes:
    document = json.loads(plan.canonical())
    change(document)
    return canonical_bytes(document)


def test_the_plan_states_the_setting_of_every_arm(make_plan):
    plan = make_plan(**BOTH)
    assert [(arm.task_id, arm.condition_id) for arm in plan.arms] == [
        ("depotfeed-returns", "no_memory"),
        ("depotfeed-returns", "raw_fts"),
    ]
    first, second = (arm.model_dump(exclude={"condition_id"}) for arm in plan.arms)
    assert first == second


@pytest.mark.parametrize("part", PARTS)
def test_a_hand_made_plan_with_one_unequal_arm_is_refused_by_the_name_of_what_differs(
    make_plan, tmp_path, part
):
    path = tmp_path / "plan.json"
    path.write_bytes(
        edited(make_plan(**BOTH), lambda d: d["arms"][1].update({f"{part}_sha256": "f" * 64}))
    )
    with pytest.raises(DocumentError) as caught:
        read_plan(path)
    assert f"expected equal {part} in every arm" in caught.value.message
    assert "raw_fts" in caught.value.message
    assert caught.value.exit_code == 3


@pytest.mark.parametrize("part", PARTS)
def test_arms_that_are_equal_but_not_what_the_pins_give_are_refused(make_plan, tmp_path, part):
    def lie(document):
        for arm in document["arms"]:
            arm[f"{part}_sha256"] = "f" * 64

    path = tmp_path / "plan.json"
    path.write_bytes(edited(make_plan(**BOTH), lie))
    with pytest.raises(DocumentError, match="not what the plan's pins give"):
        read_plan(path)


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d["arms"].pop(),
        lambda d: d["arms"].append(d["arms"][0]),
        lambda d: d["arms"].reverse(),
    ],
    ids=["missing", "twice", "another order"],
)
def test_every_arm_is_stated_once(make_plan, change):
    with pytest.raises(DocumentError, match="arms must be exactly"):
        Plan.parse(edited(make_plan(**BOTH), change), where="plan.json")


def test_plan_refuses_conditions_whose_budgets_differ(tmp_path, fixtures):
    copy = tmp_path / "fixtures"
    shutil.copytree(fixtures, copy)
    path = copy / "conditions.json"
    registry = json.loads(path.read_text())
    third = [arm for arm in registry["conditions"] if arm.get("standard")][2]
    third["budget"]["max_tokens"] += 1
    path.write_text(json.dumps(registry))
    with pytest.raises(DocumentError) as caught:
        build_plan(
            PlanRequest(agents=("noop",)),
            fixtures=copy,
            images=ROOT / "images",
            image_pins=lambda _: (IMAGE, IMAGE),
        )
    assert caught.value.reference == "arms-unequal"
    assert "one token budget" in caught.value.message


def test_every_arm_of_a_task_gets_the_same_container(make_plan, run_with):
    asked: dict[str, list[object]] = {}

    class Recording(FakeSandbox):
        @contextmanager
        def open(self, task, *, trial, sockets=None):
            options = create_options(
                agent_profile(task.limits, Uids(100_000)),
                image=task.agent_image.id,
                volume="v",
                labels={},
            )
            asked.setdefault(task.digests.id, []).append(options)
            with super().open(task, trial=trial) as workspace:
                yield workspace

    run_with(make_plan(**BOTH, agents=("noop", "oracle")), Recording())
    (options,) = asked.values()
    assert len(options) == 4
    assert all(option == options[0] for option in options)


def test_the_shipped_conditions_share_one_budget(fixtures: Path):
    registry = json.loads((fixtures / "conditions.json").read_text())
    budgets = {
        c["budget"]["max_tokens"]
        for c in registry["conditions"]
        if "budget" in c and c["role"] != "diagnostic"
    }
    assert len(budgets) == 1

"""Promise: a plan that contradicts itself is refused, in words for what disagrees."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError

from orchestrator.model.plan import AgentImage, Plan
from tests.live import live_plan
from tests.recorded import TINY, make_plan

Fields = dict[str, Any]
Spoil = Callable[[Fields], object]


@functools.cache
def sound(*, live: bool) -> Plan:
    two = replace(TINY, conditions=("no_memory", "curated_file_budgeted"))
    return live_plan() if live else make_plan(two)


def other_model(fields: Fields) -> None:
    for agent in fields["agents"]:
        agent["model"] = "model-2"


def scripted_model(fields: Fields) -> None:
    fields["agents"][0]["kind"] = "scripted_model"
    fields["gateway"] = None


def scripted_agent(fields: Fields) -> None:
    fields["agents"][0]["kind"] = "scripted"
    fields["diagnostic"] = True


SCRIPTED: list[tuple[str, Spoil]] = [
    ("tasks must be unique", lambda f: f["tasks"].append(f["tasks"][0])),
    ("conditions must be unique", lambda f: f["conditions"].append(f["conditions"][0])),
    ("agents must be unique", lambda f: f["agents"].append(f["agents"][0])),
    ("tasks x conditions x agents x epochs", lambda f: f["trials"].pop()),
    ("tasks x conditions x agents x epochs", lambda f: f["trials"].append(f["trials"][0])),
    ("seq must count the trials from 0", lambda f: f["trials"][0].update(seq=99)),
    ("a plan with a scripted agent is diagnostic", lambda f: f.update(diagnostic=False)),
    ("an agent that asks a model needs the gateway", scripted_model),
    ("only a live plan has them", lambda f: f["agents"][0].update(kind="live_model")),
    ("arms must be exactly tasks x conditions", lambda f: f["arms"].pop()),
    ("expected equal limits in every arm", lambda f: f["arms"][1].update(limits_sha256="f" * 64)),
    (
        "is not what the plan's pins give",
        lambda f: [arm.update(limits_sha256="f" * 64) for arm in f["arms"]],
    ),
]
LIVE: list[tuple[str, Spoil]] = [
    ("a live plan has live agents only", scripted_agent),
    (
        "a live plan is directional in every phase but official",
        lambda f: f["gateway"].update(standing="official"),
    ),
    ("every agent of a live plan asks the plan's model", other_model),
]


def refused(plan: Plan, spoil: Spoil, words: str) -> None:
    fields = plan.model_dump(mode="json")
    spoil(fields)
    with pytest.raises(ValidationError, match=words):
        Plan.model_validate_json(json.dumps(fields))


@pytest.mark.parametrize(("words", "spoil"), SCRIPTED, ids=[words for words, _ in SCRIPTED])
def test_a_scripted_plan_that_contradicts_itself_is_refused(words, spoil):
    refused(sound(live=False), spoil, words)


@pytest.mark.parametrize(("words", "spoil"), LIVE, ids=[words for words, _ in LIVE])
def test_a_live_plan_that_contradicts_itself_is_refused(words, spoil):
    refused(sound(live=True), spoil, words)


@pytest.mark.parametrize("live", [False, True])
def test_a_sound_plan_is_read_back(live):
    plan = sound(live=live)
    assert Plan.parse_canonical(plan.canonical(), where="plan") == plan


def test_an_agent_with_a_layer_of_its_own_has_its_own_image():
    plan = sound(live=False)
    other = plan.tasks[0].agent_image.model_copy(update={"id": "sha256:" + "f" * 64})
    own = AgentImage(agent="packaged", image=other)
    task = plan.tasks[0].model_copy(update={"agent_images": (own,)})
    assert task.for_agent("packaged").agent_image == other
    assert task.for_agent("follower") == task


def test_a_trials_pin_is_that_of_its_task():
    plan = sound(live=False)
    assert plan.pin_of(plan.trials[0]) == plan.tasks[0]


def test_only_a_live_plans_run_is_worth_more_than_a_diagnosis():
    assert [sound(live=live).standing for live in (False, True)] == ["diagnostic", "directional"]


def reviews(fields: Fields) -> None:
    pin = {"condition_id": "no_memory", "task_id": fields["tasks"][0]["digests"]["id"]}
    fields["reviews"] = [
        {**pin, "log_sha256": "f" * 64, "held": 1, "resolved": 1, "seconds_spent": 1}
    ]


def test_a_log_of_reviews_belongs_to_an_arm_that_has_them():
    refused(sound(live=False), reviews, "reviews must be exactly reviewed conditions x tasks")

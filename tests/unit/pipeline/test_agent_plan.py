"""Promise: a plan of packaged agents fixes their identity and images, and the scripted model speaks to each."""

from __future__ import annotations

import json

import pytest

from orchestrator.agents.registry import PACKAGED_AGENTS, speech_of
from orchestrator.core.canonical import sha256_hex
from orchestrator.core.errors import UsageError
from orchestrator.core.places import fixtures_root, images_root
from orchestrator.model.plan import AgentImage, ImagePin
from orchestrator.pipeline.fits import request_of
from orchestrator.pipeline.planimages import check_holds_no_answer
from orchestrator.pipeline.traffic import script_of
from orchestrator.sandbox.agents import recipe_bytes
from orchestrator.sources.loader import list_tasks, load_task

TASK = "depotfeed-returns"
REAL = {"agents": (*PACKAGED_AGENTS, "oracle"), "tasks": (TASK,)}


def test_the_identity_of_a_packaged_agent_is_in_the_plan(make_plan):
    plan = make_plan(**REAL)
    for name in PACKAGED_AGENTS:
        pin = plan.agent(name)
        assert pin.identity is not None
        assert pin.program_sha256 == sha256_hex(recipe_bytes(images_root(), name))
        assert (pin.kind, plan.diagnostic) == ("scripted_model", True)
    assert plan.agent("oracle").identity is None


def test_every_model_id_has_a_price_and_an_ordinary_plan_has_no_more_prices(make_plan):
    gateway = make_plan(**REAL).gateway
    assert gateway is not None
    models = [speech.model for name in PACKAGED_AGENTS if (speech := speech_of(name))]
    assert all(gateway.prices.find(model) for model in models)
    chat = make_plan(agents=("chat",), tasks=(TASK,)).gateway
    assert chat is not None
    assert not any(chat.prices.find(model) for model in models)


def test_the_script_speaks_to_each_agent_by_its_own_tool():
    speeches = {name: s for name in PACKAGED_AGENTS if (s := speech_of(name))}
    script = script_of((load_task(fixtures_root(), TASK),), speeches)
    for name in PACKAGED_AGENTS:
        speech = speech_of(name)
        assert speech is not None
        own = [s for s in script.scenarios if s.model == speech.model and s.offers is None]
        assert len(own) == 2
        first = own[0].turns[0].calls[0]
        assert (first.name, json.loads(first.arguments)) == (speech.tool, {speech.argument: "ls"})


def test_a_trial_runs_in_the_image_of_its_own_agent(make_plan):
    plan = make_plan(**REAL)
    other = ImagePin(id="sha256:" + "ab" * 32, diff_ids=("sha256:" + "cd" * 32,))
    task = plan.tasks[0].model_copy(
        update={"agent_images": (AgentImage(agent="codex", image=other),)}
    )
    assert task.for_agent("codex").agent_image == other
    assert task.for_agent("codex").verifier_image == task.verifier_image
    assert task.for_agent("oracle") == task


def test_another_agent_image_is_another_setting_of_every_arm(make_plan):
    made = make_plan(**REAL)
    arms = tuple(made.setting(arm.task_id, arm.condition_id) for arm in made.arms)
    plan = type(made).model_validate({**dict(made), "arms": arms})
    other = ImagePin(id="sha256:" + "ab" * 32, diff_ids=("sha256:" + "cd" * 32,))
    changed = plan.tasks[0].model_copy(
        update={"agent_images": (AgentImage(agent="codex", image=other),)}
    )
    with pytest.raises(ValueError, match="not what the plan's pins give"):
        type(plan).model_validate({**dict(plan), "tasks": (changed,)})


def test_its_request_names_no_model(make_plan):
    assert request_of(make_plan(**REAL)).model is None


def test_an_agent_that_brings_the_library_under_test_is_refused():
    names = list_tasks(fixtures_root())
    tasks = [load_task(fixtures_root(), name) for name in names]
    about_click = next(task for task in tasks if task.card.source.startswith("click-"))
    with pytest.raises(UsageError, match="mini-swe-agent brings click"):
        check_holds_no_answer(about_click, "mini-swe-agent")
    check_holds_no_answer(about_click, "codex")
    check_holds_no_answer(load_task(fixtures_root(), TASK), "mini-swe-agent")

"""Promise: a plan names each agent once, speaks to each in one way, and holds caps that leave room and nest."""

from __future__ import annotations

import json
from typing import Any

import pytest

from orchestrator.core.errors import UsageError
from orchestrator.core.places import fixtures_root
from orchestrator.model.agents import CommandAgent
from orchestrator.pipeline.fits import check_fits
from orchestrator.pipeline.options import LiveRequest, PlanRequest
from orchestrator.pipeline.traffic import load_prices
from tests.recorded import make_plan

ONE = {"tasks": ("depotfeed-returns",), "conditions": ("no_memory",)}
FILE: dict[str, Any] = {
    "schema_version": 1,
    "agent": "my-agent",
    "argv": ["my-agent", "{model}"],
    "environment": [["MY_KEY", "{token}"]],
    "model": "m-1",
    "api": "chat",
    "tool": "bash",
    "argument": "command",
}


def described(**change: object) -> CommandAgent:
    return CommandAgent.parse(json.dumps({**FILE, **change}).encode(), where="agent.json")


def live(*apis: str, provider: str = "openai") -> dict[str, Any]:
    table = load_prices(fixtures_root())
    price = table.models[0].model_copy(update={"model": "real", "apis": apis or ("chat",)})
    prices = table.model_copy(update={"models": (price,)})
    origin = "http://127.0.0.1:9"
    request = LiveRequest(provider, origin, prices, 10_000_000)  # type: ignore[arg-type]
    return {"model": "real", "live": request}


def request(**change: Any) -> PlanRequest:
    return PlanRequest(**{"agents": ("chat",), **ONE, **change})


def test_a_described_agent_asks_the_real_model_of_a_live_plan_and_the_plan_fits_again():
    asked = request(agents=(), commands=(described(),), **live())
    plan = make_plan(asked)
    pin = plan.agent("my-agent")
    assert (pin.kind, pin.model, plan.diagnostic) == ("live_model", "real", False)
    check_fits(plan, make_plan, lambda _: None)


def test_an_agent_that_is_named_twice_is_one_agent_and_has_the_caps_of_one():
    twice = make_plan(request(agents=("chat", "chat"), epochs=10, **live()))
    once = make_plan(request(epochs=10, **live()))
    assert twice.canonical() == once.canonical()


def test_two_described_agents_of_one_name_are_refused():
    with pytest.raises(UsageError, match="my-agent again"):
        make_plan(request(commands=(described(), described(tool="shell"))))


@pytest.mark.parametrize("change", [{"tool": "shell"}, {"api": "responses"}, {"argument": "cmd"}])
def test_two_ways_to_speak_under_one_scripted_model_id_are_refused(change):
    other = described(model="scripted-1", **change)
    with pytest.raises(UsageError, match="scripted-1"):
        make_plan(request(commands=(other,)))
    assert make_plan(request(commands=(described(model="scripted-1"),))).agents


@pytest.mark.parametrize(
    ("apis", "provider", "told"),
    [
        (("messages",), "openai", "for chat"),
        (("chat",), "anthropic", "which goes to openai"),
    ],
)
def test_a_real_model_that_could_not_answer_an_agent_is_refused(apis, provider, told):
    with pytest.raises(UsageError, match=told):
        make_plan(request(**live(*apis, provider=provider)))


@pytest.mark.parametrize(
    "caps",
    [
        (("call", 0),),
        (("run", 0),),
        (("call", 9_000), ("trial", 8_000)),
        (("trial", 8_000), ("condition", 7_000)),
        (("condition", 10**12),),
    ],
)
def test_caps_that_let_nothing_through_or_do_not_nest_are_refused(caps):
    with pytest.raises(UsageError, match="expected a cap per"):
        make_plan(request(caps=caps))


def test_a_cap_above_what_the_live_run_may_spend_is_refused():
    with pytest.raises(UsageError, match="the cap per condition"):
        make_plan(request(caps=(("trial", 1_000_000_000),), **live()))


@pytest.mark.parametrize("matrix", ["implemented", "all"])
def test_a_plan_without_any_agent_is_refused_by_name(matrix):
    with pytest.raises(UsageError, match="expected at least one agent, found none"):
        make_plan(PlanRequest(agents=(), matrix=matrix))

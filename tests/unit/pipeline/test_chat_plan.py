"""Promise: a plan of an agent that asks a model fixes prices, caps and script, equal in every arm."""

from __future__ import annotations

from dataclasses import fields

import pytest

from orchestrator.core.errors import DocumentError, IntegrityError
from orchestrator.model.gateway import GatewayPin
from orchestrator.model.plan import Plan
from orchestrator.pipeline.fits import check_fits, request_of
from orchestrator.pipeline.options import PlanRequest
from orchestrator.pipeline.traffic import SCRIPTED_MODEL

CHAT = {"agents": ("chat", "oracle"), "tasks": ("depotfeed-returns",), "conditions": ()}


def test_a_plan_of_the_chat_agent_has_a_gateway_and_one_without_it_has_none(make_plan):
    plan = make_plan(**CHAT)
    assert plan.gateway is not None
    assert plan.gateway.prices.find(SCRIPTED_MODEL) is not None
    assert [agent.model for agent in plan.agents] == [SCRIPTED_MODEL, None]
    assert make_plan().gateway is None
    assert len({arm.caps_sha256 for arm in plan.arms}) == 1


def test_its_request_gives_the_plan_again(make_plan):
    plan = make_plan(**CHAT)
    check_fits(plan, lambda request: make_plan(**_fields(request)), lambda _: None)


def test_a_plan_with_other_caps_or_another_script_does_not_fit(make_plan):
    plan: Plan = make_plan(**CHAT)
    assert plan.gateway is not None
    for change in ({"script_sha256": "0" * 64}, {"model": "another"}):
        gateway = GatewayPin.model_validate(
            {**{n: getattr(plan.gateway, n) for n in GatewayPin.model_fields}, **change}
        )
        other = plan.model_copy(update={"gateway": gateway})
        with pytest.raises((DocumentError, IntegrityError)):
            check_fits(other, lambda request: make_plan(**_fields(request)), lambda _: None)


def _fields(request: PlanRequest) -> dict[str, object]:
    return {field.name: getattr(request, field.name) for field in fields(request)}


def test_the_request_names_no_model(make_plan):
    assert request_of(make_plan(**CHAT)).model is None

"""Promise: a memory system is offered the model of a live run, and none where a script plays the agent."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from orchestrator.model.exchange import Role
from orchestrator.pipeline.doors import agent_access, memory_access
from orchestrator.protocols import GatewayPlace
from tests.live import live_plan
from tests.played_chat import CHAT
from tests.recorded import make_plan


def bench(plan: Any, *roles: Role) -> Any:
    place = GatewayPlace(Path("sockets"), tuple((role, f"token of {role}") for role in roles))
    return SimpleNamespace(plan=plan, trial=plan.trials[0], gateway_place=place, workspace=None)


def test_a_live_model_is_offered_to_agent_and_memory_each_by_its_own_token():
    opened = bench(live_plan(), "agent", "memory")
    memory = memory_access(opened)
    agent = agent_access(opened)
    assert memory is not None
    assert agent is not None
    assert (memory.token, agent.token) == ("token of memory", "token of agent")
    assert memory.model == agent.model == "model-1"


def test_a_scripted_model_is_offered_to_the_agent_alone():
    opened = bench(make_plan(CHAT), "agent", "memory")
    assert agent_access(opened) is not None
    assert memory_access(opened) is None


def test_a_place_without_the_role_of_memory_offers_it_nothing():
    assert memory_access(bench(live_plan(), "agent")) is None

"""Agents by name. Reads nothing; a driver is made when it is asked for."""

from __future__ import annotations

from orchestrator.agents.chat import CHAT_AGENT, ChatDriver
from orchestrator.agents.scripted import SCRIPTED_AGENTS, ScriptedDriver
from orchestrator.core.errors import unknown_name
from orchestrator.protocols import AgentDriver

AGENTS = (*SCRIPTED_AGENTS, CHAT_AGENT)


def driver_for(name: str) -> AgentDriver:
    """Returns the driver of an agent.

    Raises:
        UsageError: there is no such agent.
    """
    if name == CHAT_AGENT:
        return ChatDriver()
    if name not in SCRIPTED_AGENTS:
        raise unknown_name("agent", name, AGENTS, option="--agent")
    return ScriptedDriver(name)


def asks_a_model(name: str) -> bool:
    """Tells whether an agent needs the gateway."""
    return name == CHAT_AGENT

"""Agents by name. Reads nothing; a driver is made when it is asked for."""

from __future__ import annotations

from collections.abc import Iterable

from orchestrator.agents import claude_code, codex, mini
from orchestrator.agents.chat import CHAT_AGENT, ChatDriver
from orchestrator.agents.command import CommandDriver, speech_of_command
from orchestrator.agents.scripted import SCRIPTED_AGENTS, ScriptedDriver
from orchestrator.agents.speech import Speech
from orchestrator.core.errors import unknown_name
from orchestrator.model.plan import AgentPin
from orchestrator.protocols import AgentDriver

# Agents with an image layer of their own, which is made when a plan first names them.
PACKAGED_AGENTS = (claude_code.CLAUDE_CODE, codex.CODEX, mini.MINI)
AGENTS = (*SCRIPTED_AGENTS, CHAT_AGENT, *PACKAGED_AGENTS)
_SPEECHES = {
    CHAT_AGENT: Speech(
        model="scripted-1",
        api="chat",
        tool="bash",
        argument="command",
        max_output_tokens=4096,
    ),
    claude_code.CLAUDE_CODE: claude_code.SPEECH,
    codex.CODEX: codex.SPEECH,
    mini.MINI: mini.SPEECH,
}


def driver_for(name: str) -> AgentDriver:
    """Returns the driver of an agent.

    Raises:
        UsageError: there is no such agent.
    """
    if name == CHAT_AGENT:
        return ChatDriver()
    if name == claude_code.CLAUDE_CODE:
        return claude_code.ClaudeCodeDriver()
    if name == codex.CODEX:
        return codex.CodexDriver()
    if name == mini.MINI:
        return mini.MiniDriver()
    if name not in SCRIPTED_AGENTS:
        raise unknown_name("agent", name, AGENTS, option="--agent")
    return ScriptedDriver(name)


def speech_of(name: str) -> Speech | None:
    """Returns how a scripted model speaks to an agent; None for an agent that asks no model."""
    return _SPEECHES.get(name)


def is_packaged(name: str) -> bool:
    """Tells whether an agent brings an image layer of its own."""
    return name in PACKAGED_AGENTS


def driver_of(pin: AgentPin) -> AgentDriver:
    """Returns the driver of an agent as a plan pins it; a described agent needs no code of ours.

    Raises:
        UsageError: there is no such agent.
    """
    return driver_for(pin.name) if pin.command is None else CommandDriver(pin.command)


def speeches_of(pins: Iterable[AgentPin]) -> dict[str, Speech]:
    """Returns how a scripted model speaks to each of a plan's agents that asks one, by name."""
    found: dict[str, Speech] = {}
    for pin in pins:
        speech = speech_of(pin.name) if pin.command is None else speech_of_command(pin.command)
        if speech is not None:
            found[pin.name] = speech
    return found

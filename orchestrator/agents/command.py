"""Driver of an agent that a small file describes: any command line, without code of ours.

Puts address, token, model and prompt into their places and changes nothing else. Reads no file: the
description is part of the plan.
"""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.agents.access import needs_gateway
from orchestrator.agents.speech import Speech
from orchestrator.model.agents import CommandAgent
from orchestrator.model.task import Rehearsal
from orchestrator.protocols import GatewayAccess, Launch


def speech_of_command(described: CommandAgent) -> Speech:
    """Returns how a scripted model speaks to a described agent."""
    return Speech(
        model=described.model,
        api=described.api,
        tool=described.tool,
        argument=described.argument,
        farewell=described.farewell,
    )


@dataclass(frozen=True, slots=True)
class CommandDriver:
    """A described agent."""

    described: CommandAgent

    @property
    def name(self) -> str:
        """The agent's name in plans."""
        return self.described.agent

    def launch(
        self, prompt: str, rehearsal: Rehearsal, access: GatewayAccess | None = None
    ) -> Launch:
        """Builds the command.

        Raises:
            EnvironmentMissing: there is no gateway to ask.
        """
        del rehearsal
        access = needs_gateway(self.name, access)
        known = {"{base_url}": access.base_url, "{model}": access.model}
        by_argument = self.described.prompt == "argument"
        # The prompt goes in last, so that what stands in it is never taken for a place.
        argv = [_filled(word, known) for word in self.described.argv]
        if by_argument:
            argv = [word.replace("{prompt}", prompt) for word in argv]
        with_token = {**known, "{token}": access.token}
        return Launch(
            argv=tuple(argv),
            environment=tuple((n, _filled(v, with_token)) for n, v in self.described.environment),
            stdin=b"" if by_argument else prompt.encode(),
        )


def _filled(word: str, known: dict[str, str]) -> str:
    for place, value in known.items():
        word = word.replace(place, value)
    return word

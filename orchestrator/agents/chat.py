"""Driver of the chat agent: a small program in the container that asks a model through the gateway.

It gets the prompt and a run token, no answer. With a scripted model the answer is in the script, so its
trials are diagnostic too; what they show is the whole way from memory over the model to the verdict.
"""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.agents.access import needs_gateway
from orchestrator.model.task import Rehearsal
from orchestrator.protocols import GatewayAccess, Launch

CHAT_AGENT = "chat"
PROGRAM = ("python3", "-I", "-B", "/opt/memtrial/agent/chat.py")


@dataclass(frozen=True, slots=True)
class ChatDriver:
    """The chat agent."""

    name: str = CHAT_AGENT

    def launch(
        self, prompt: str, rehearsal: Rehearsal, access: GatewayAccess | None = None
    ) -> Launch:
        """Builds the command.

        Raises:
            EnvironmentMissing: there is no gateway to ask.
        """
        del rehearsal
        access = needs_gateway(self.name, access)
        environment = (
            ("MEMTRIAL_MODEL", access.model),
            ("OPENAI_API_KEY", access.token),
            ("OPENAI_BASE_URL", f"{access.base_url}/v1"),
        )
        return Launch(argv=PROGRAM, environment=environment, stdin=prompt.encode())

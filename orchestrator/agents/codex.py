"""Driver of the Codex CLI: one profile for every condition, with everything it reads on its own shut off.

The whole configuration is given on the command line, so that no file of HOME decides anything. Its own
sandbox is off: the container is the sandbox.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from orchestrator.agents.access import needs_gateway
from orchestrator.agents.speech import Speech
from orchestrator.model.task import Rehearsal
from orchestrator.protocols import GatewayAccess, Launch

CODEX = "codex"
SPEECH = Speech(
    model="gpt-5.5",
    api="responses",
    tool="exec_command",
    argument="cmd",
    server=("mcp__{server}.", True),
)
PROGRAM = "/opt/memtrial/agents/codex/bin/codex"
TOKEN = "MEMTRIAL_GATEWAY_TOKEN"  # noqa: S105 - the name of a variable
SETTINGS: tuple[tuple[str, object], ...] = (
    ("analytics.enabled", False),
    ("check_for_update_on_startup", False),
    ("features.apps", False),
    ("features.hooks", False),
    ("features.memories", False),
    ("features.plugins", False),
    ("features.remote_plugin", False),
    ("features.unbounded_connection_retries", False),
    ("project_doc_max_bytes", 0),
    ("skills.bundled.enabled", False),
    ("skills.include_instructions", False),
    ("web_search", "disabled"),
)


@dataclass(frozen=True, slots=True)
class CodexDriver:
    """The Codex CLI."""

    name: str = CODEX

    def launch(
        self, prompt: str, rehearsal: Rehearsal, access: GatewayAccess | None = None
    ) -> Launch:
        """Builds the command; the prompt goes over standard input.

        Raises:
            EnvironmentMissing: there is no gateway to ask.
        """
        del rehearsal
        access = needs_gateway(self.name, access)
        provider = "model_providers.gateway"
        settings = (
            *SETTINGS,
            ("model", access.model),
            ("model_provider", "gateway"),
            (f"{provider}.name", "gateway"),
            (f"{provider}.base_url", f"{access.base_url}/v1"),
            (f"{provider}.env_key", TOKEN),
            (f"{provider}.wire_api", "responses"),
        )
        argv = (
            *(PROGRAM, "exec", "--json", "--ephemeral", "--skip-git-repo-check"),
            *("--dangerously-bypass-approvals-and-sandbox", "--ignore-rules", "--strict-config"),
            # TOML's booleans, whole numbers and basic strings are written as JSON writes them.
            *(part for key, value in settings for part in ("-c", f"{key}={json.dumps(value)}")),
            "-",
        )
        return Launch(argv=argv, environment=((TOKEN, access.token),), stdin=prompt.encode())

"""Driver of Claude Code: one profile for every condition, with everything it reads on its own shut off.

Repository, parent and HOME files that steer it, automatic memory, MCP servers of the project, telemetry
and updates are off by flags and environment; what a condition adds comes in by `--settings` alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.agents.access import needs_gateway
from orchestrator.agents.speech import Speech
from orchestrator.model.task import Rehearsal
from orchestrator.protocols import GatewayAccess, Launch

CLAUDE_CODE = "claude-code"
SPEECH = Speech(
    model="claude-sonnet-5-5",
    api="messages",
    tool="Bash",
    argument="command",
    max_output_tokens=32_000,
    server=("mcp__{server}__", False),
)
PROGRAM = "/opt/memtrial/agents/claude-code/claude"
OFF = (
    "CLAUDE_CODE_DISABLE_AUTO_MEMORY",
    "CLAUDE_CODE_DISABLE_CLAUDE_MDS",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
    "DISABLE_AUTOUPDATER",
    "DISABLE_ERROR_REPORTING",
    "DISABLE_TELEMETRY",
)


@dataclass(frozen=True, slots=True)
class ClaudeCodeDriver:
    """Claude Code."""

    name: str = CLAUDE_CODE

    def launch(
        self, prompt: str, rehearsal: Rehearsal, access: GatewayAccess | None = None
    ) -> Launch:
        """Builds the command; the prompt goes over standard input.

        Raises:
            EnvironmentMissing: there is no gateway to ask.
        """
        del rehearsal
        access = needs_gateway(self.name, access)
        argv = (
            *(PROGRAM, "-p", "--model", access.model),
            *("--output-format", "stream-json", "--verbose"),
            *("--permission-mode", "bypassPermissions"),
            *("--setting-sources", "", "--settings", "{}"),
            *("--strict-mcp-config", "--no-session-persistence"),
        )
        environment = (
            ("ANTHROPIC_API_KEY", access.token),
            ("ANTHROPIC_BASE_URL", access.base_url),
            ("CLAUDE_CODE_MAX_RETRIES", "2"),
            # Tools of a server stand in the first request, not behind a search for tools.
            ("ENABLE_TOOL_SEARCH", "false"),
            *((name, "1") for name in OFF),
        )
        return Launch(argv=argv, environment=environment, stdin=prompt.encode())

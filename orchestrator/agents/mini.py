"""Driver of mini-swe-agent: its own command line, from its own folder of modules.

The modules are on the path of this one process: commands that the agent runs see the repository's world.
The agent keeps its record in a file, which is printed behind a mark once the agent has ended.
"""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.agents.access import needs_gateway
from orchestrator.agents.speech import Speech
from orchestrator.model.task import Rehearsal
from orchestrator.protocols import GatewayAccess, Launch

MINI = "mini-swe-agent"
SPEECH = Speech(
    model="scripted-mini-1",
    api="chat",
    tool="bash",
    argument="command",
    farewell="echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT",
)
SITE = "/opt/memtrial/agents/mini-swe-agent/site"
MARK = "MEMTRIAL-TRAJECTORY"
_START = f"import sys; sys.path.insert(0, {SITE!r}); from minisweagent.run.mini import app; sys.exit(app())"
# A command substitution drops trailing line ends; the letter behind them keeps the prompt whole.
_SHELL = f"""task=$(cat; printf x); task=${{task%x}}
python3 -I -B -c "$1" -y --exit-immediately -m "openai/$2" -t "$task" -o "$HOME/trajectory.json" -l 0 </dev/null
code=$?
printf '\\n%s\\n' {MARK}
cat "$HOME/trajectory.json" 2>/dev/null
exit $code
"""


@dataclass(frozen=True, slots=True)
class MiniDriver:
    """mini-swe-agent."""

    name: str = MINI

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
            ("LITELLM_LOCAL_MODEL_COST_MAP", "True"),
            ("MSWEA_CONFIGURED", "true"),
            ("MSWEA_COST_TRACKING", "ignore_errors"),
            ("MSWEA_GLOBAL_CONFIG_DIR", "/home/agent/.mini"),
            # By itself it asks ten times over some minutes, whatever the error; the gateway is patient for all.
            ("MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT", "3"),
            ("MSWEA_SILENT_STARTUP", "1"),
            ("OPENAI_API_BASE", f"{access.base_url}/v1"),
            ("OPENAI_API_KEY", access.token),
        )
        argv = ("sh", "-c", _SHELL, "mini", _START, access.model)
        return Launch(argv=argv, environment=environment, stdin=prompt.encode())

"""Proof that no file that steers an agent reaches its model under our profile, and exactly the declared text by each channel.

    .venv/bin/python -m bench.agentcanaries [AGENT ...]

Plants a canary in every place that a known agent reads (repository, its parents, HOME, /etc), starts the
agent in a real container, and searches every request of the gateway's record: under our profile none may be
there, with each of the agent's channels the one that the channel carries, and as people type it some are.
Writes results/proofs.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import platform
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from orchestrator.agents.channels import PREFIX, channels_of, delivered
from orchestrator.agents.registry import PACKAGED_AGENTS, driver_for
from orchestrator.core.clock import utc_now_text
from orchestrator.core.gittree import FileEntry
from orchestrator.core.places import cache_root, fixtures_root
from orchestrator.gateway.recorded import calls_of
from orchestrator.memory.none import EmptyAdapter
from orchestrator.memory.sessions import PROJECT
from orchestrator.memory.tokens import TokenCounter
from orchestrator.memory.tools.server import MemoryServer
from orchestrator.memory.tools.store import ServedStore
from orchestrator.model.condition import Delivery, MemoryBudget
from orchestrator.model.lifecycle import StoredMemory
from orchestrator.model.plan import ImagePin, Plan, TaskPin
from orchestrator.pipeline.exposure import agent_calls
from orchestrator.pipeline.imaging import layer_of_agent, shared_images
from orchestrator.pipeline.options import PlanRequest
from orchestrator.pipeline.setup import make_plan
from orchestrator.pipeline.toolserver import ToolDoor
from orchestrator.pipeline.traffic import gateway_of
from orchestrator.protocols import GatewayAccess, Launch, TrialPlace
from orchestrator.sandbox.adapter import DockerSandbox
from orchestrator.sandbox.agents import with_agent
from orchestrator.sandbox.engine import connect
from orchestrator.sandbox.identity import installation_id
from orchestrator.sandbox.images import ensure_loaded, pin
from orchestrator.sandbox.languages import image_of
from orchestrator.sandbox.layers import ImageSpec, make_layer
from orchestrator.sources.loader import load_task

ROOT = Path(__file__).resolve().parents[1]
TASK, ARM = "depotfeed-returns", "no_memory"
HOME, WORK = "/home/agent", "/work"
SLUG = f"{HOME}/.claude/projects/-work/memory"
SKILL = "---\nname: skill-{n}\ndescription: {c}\n---\n{c}\n"
RULE = "{c}\n"
HOOKS = '{{"hooks": {{"SessionStart": [{{"hooks": [{{"type": "command", "command": "echo {c}"}}]}}]}}}}\n'
MCP = '{{"mcpServers": {{"{c}": {{"command": "sh", "args": ["-c", "echo {c}"]}}}}}}\n'
# Places that somebody can write at run time: repository and HOME.
WRITTEN: tuple[tuple[str, str], ...] = (
    *((f"{WORK}/{name}", RULE) for name in ("CLAUDE.md", "CLAUDE.local.md", ".claude/CLAUDE.md", ".claude/rules/r.md", "AGENTS.md", "AGENTS.override.md", "MEMORY.md", "GEMINI.md", ".cursorrules", ".github/copilot-instructions.md", "memory/MEMORY.md", "memories/MEMORY.md", "instructions.md", ".codex/AGENTS.md", ".mini.md")),
    *((f"{WORK}/{name}/SKILL.md", SKILL) for name in (".claude/skills/a", ".agents/skills/b", ".codex/skills/c")),
    *((f"{WORK}/{name}", HOOKS) for name in (".claude/settings.json", ".claude/settings.local.json", ".codex/hooks.json")),
    (f"{WORK}/.mcp.json", MCP),
    (f"{WORK}/.codex/config.toml", 'developer_instructions = "{c}"\n'),
    *((f"{HOME}/{name}", RULE) for name in (".claude/CLAUDE.md", ".claude/rules/r.md", ".claude/AGENTS.md", "CLAUDE.md", "AGENTS.md", "MEMORY.md", ".codex/instructions.md", ".codex/memories/memory_summary.md", ".codex/memories/MEMORY.md", ".config/mini-swe-agent/AGENTS.md")),
    (f"{SLUG}/MEMORY.md", RULE),
    *((f"{HOME}/{name}/SKILL.md", SKILL) for name in (".claude/skills/d", ".agents/skills/e", ".codex/skills/f")),
    *((f"{HOME}/{name}", HOOKS) for name in (".claude/settings.json", ".codex/hooks.json")),
)  # fmt: skip
# Places of the image: above the repository, and the administrator's.
BAKED = ("/CLAUDE.md", "/AGENTS.md", "/MEMORY.md", "/etc/claude-code/CLAUDE.md", "/etc/codex/AGENTS.md")  # fmt: skip
# No flag of Codex keeps this one out: only an empty HOME does, which is proven before every trial.
EMPTY_HOME_ONLY = f"{HOME}/.codex/AGENTS.md"
_PLANT = 'python3 -c "import json,os,sys\nfor p, t in json.loads(sys.argv[1]).items():\n    os.makedirs(os.path.dirname(p), exist_ok=True); open(p, chr(119)).write(t)" "$1"; shift; exec "$@"'  # fmt: skip


CANARY = "canary-of-the-channel-qzvx"
TEXT = f"<memory>\n- [mem:c1] {CANARY}\n</memory>"


class OneNote(EmptyAdapter):
    """A store of one memory."""

    def __init__(self, counter: TokenCounter) -> None:
        super().__init__(counter)
        self._memories = [
            StoredMemory(memory_id="c1", kind="entry", text=CANARY, scope=PROJECT, status="active")
        ]


def places() -> dict[str, str]:
    """Returns every place with its canary."""
    names = [*(path for path, _ in WRITTEN), *BAKED]
    return {path: f"canary-{number:02d}-qzvx" for number, path in enumerate(names)}


def planted() -> dict[str, str]:
    """Returns the files that are written at run time, with their texts."""
    known = places()
    return {path: text.format(c=known[path], n=known[path][7:9]) for path, text in WRITTEN}


def bare(launch: Launch) -> Launch:
    """Returns the launch as a person would type it: without what our profile switches off."""
    argv = list(launch.argv)
    if argv[0] == "sh":
        # Reads nothing by itself, so nothing is switched off.
        return launch
    if "--setting-sources" in argv:
        at = argv.index("--setting-sources")
        del argv[at : at + 4]
        argv.remove("--strict-mcp-config")
    else:
        kept: list[str] = []
        for word in argv:
            if (
                kept
                and kept[-1] == "-c"
                and not word.startswith(("model", "check_for", "web_search"))
            ):
                kept.pop()
                continue
            kept.append(word)
        argv = [word for word in kept if word not in {"--ignore-rules", "--strict-config"}]
    shut = {"CLAUDE_CODE_DISABLE_AUTO_MEMORY", "CLAUDE_CODE_DISABLE_CLAUDE_MDS"}
    environment = tuple(pair for pair in launch.environment if pair[0] not in shut)
    return Launch(tuple(argv), environment, launch.stdin)


def baked_pin(plan: Plan, agent: str) -> TaskPin:
    """Makes an image of the task with canaries above the repository and in /etc."""
    task = load_task(fixtures_root(), TASK)
    client = connect()
    common = shared_images(client, (), lambda _: None).of_task(task)[0]
    spec = with_agent(common, layer_of_agent(agent, lambda _: None))
    known = places()
    extra = make_layer(FileEntry(p[1:], "100644", f"{known[p]}\n".encode()) for p in BAKED)
    made: ImageSpec = image_of((*spec.layers, extra))
    ensure_loaded(client, f"canaries-{agent}", made, lambda _: None)
    image: ImagePin = pin(made)
    return plan.pin_of(plan.trials[0]).model_copy(update={"agent_image": image})


def carried(agent: str, channel: Delivery, launch: Launch) -> Launch:
    """Returns the launch with a canary in the channel."""
    if channel == PREFIX:
        return dataclasses.replace(launch, stdin=f"{TEXT}\n\n".encode() + launch.stdin)
    return delivered(agent, launch, channel, TEXT)


@contextmanager
def tools_at(folder: Path, channel: Delivery | None) -> Iterator[None]:
    """Serves a store of one memory, which holds the channel's canary, where the channel is one of tools."""
    if channel != "mcp":
        yield
        return
    counter = TokenCounter()
    budget = MemoryBudget(unit="o200k_base", max_tokens=700)
    server = MemoryServer(ServedStore(OneNote(counter), budget, counter, 5), "empty")
    with ToolDoor(folder).serving(server):
        yield


def seen(
    plan: Plan, where: TaskPin, agent: str, *, profile: bool, channel: Delivery | None = None
) -> tuple[list[str], int]:
    """Returns the places whose canary stood in a request, and the number of calls."""
    task = load_task(fixtures_root(), TASK)
    sandbox = DockerSandbox(connect(), installation_id(cache_root()))
    with tempfile.TemporaryDirectory(prefix="mtc-") as name:
        with gateway_of(plan, Path(name), (task,)) as gateway:
            assert gateway is not None
            opened = gateway.open_trial(TrialPlace("t", TASK, ARM, 1, ("agent",)))
            with (
                tools_at(opened.folder, channel),
                sandbox.open(where, trial="t", sockets=opened.folder) as workspace,
            ):
                access = GatewayAccess(workspace.gateway_url or "", opened.token("agent"), plan.agent(agent).model or "")  # fmt: skip
                launch = driver_for(agent).launch(task.brief.prompt, task.rehearsal, access)
                launch = launch if profile else bare(launch)
                launch = carried(agent, channel, launch) if channel else launch
                argv = ("sh", "-c", _PLANT, "plant", json.dumps(planted()), *launch.argv)
                outcome = workspace.act(dataclasses.replace(launch, argv=argv))
                gateway.close_trial("t")
        record = Path(name) / "gateway"
        calls = tuple(calls_of(record, agent_calls(record, "t", 1)))
    if not calls:
        print(outcome.output[-600:].decode("utf-8", "replace"))
    bodies = [json.dumps(call.body) for call in calls]
    known = places() | ({channel: CANARY} if channel else {})
    return [p for p, c in known.items() if any(c in body for body in bodies)], len(calls)


def main() -> int:
    """Makes the matrix; exit 1 if a canary arrived under our profile."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("agents", nargs="*", default=[])
    chosen = parser.parse_args()
    rows = []
    for agent in chosen.agents or PACKAGED_AGENTS:
        plan = make_plan(PlanRequest(agents=(agent,), tasks=(TASK,), conditions=(ARM,)), lambda _: None)  # fmt: skip
        where = baked_pin(plan, agent)
        kinds: list[tuple[str, bool, Delivery | None]] = [("ours", True, None)]
        kinds += [(f"ours, {c}", True, c) for c in sorted(channels_of(agent))]
        kinds.append(("as typed", False, None))
        for said, profile, channel in kinds:
            found, calls = seen(plan, where, agent, profile=profile, channel=channel)
            right = not profile or found == ([channel] if channel else [])
            rows.append({"agent": agent, "profile": said, "places": len(places()), "calls": calls, "seen": found, "right": right and calls > 0})  # fmt: skip
            print(f"{agent:<16} {said:<24} {len(places())} places, {calls} calls, {len(found)} canaries seen {found}", flush=True)  # fmt: skip
    wrong = [row for row in rows if not row["right"]]
    if not chosen.agents:
        folder = ROOT / "results" / "proofs"
        folder.mkdir(parents=True, exist_ok=True)
        document = {
            "at": utc_now_text(),
            "machine": platform.platform(),
            "kept_out_by_the_empty_home_alone": [EMPTY_HOME_ONLY],
            "rows": rows,
        }
        (folder / f"agent-canaries-{utc_now_text()[:10]}.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")  # fmt: skip
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())

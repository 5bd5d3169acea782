"""Promise: each channel carries exactly its text beside an unchanged profile, and only agents that have it get it."""

from __future__ import annotations

import json
import subprocess

import pytest

from orchestrator.agents.channels import AGENTS_FILE, SESSION_FILE, SOCKET, channels_of, delivered
from orchestrator.agents.registry import PACKAGED_AGENTS, driver_for, speech_of
from orchestrator.core.errors import UsageError
from orchestrator.core.places import fixtures_root
from orchestrator.pipeline.traffic import script_of
from orchestrator.protocols import GatewayAccess, Launch
from orchestrator.sources.loader import load_conditions, load_task
from tests.recorded import make_plan
from tests.unit.pipeline.test_plan_of_agents import described, request

ACCESS = GatewayAccess(base_url="http://127.0.0.1:8377", token="mtr-agent-secret", model="m-1")
TEXT = "<memory>\n- [mem:a1] ö `x` \"$HOME\" 'y'\n</memory>"
FILES = {"claude-code": SESSION_FILE, "codex": AGENTS_FILE}
OWN = [("claude-code", "session_start_hook"), ("codex", "agents_md")]


def launch_of(agent: str) -> Launch:
    rehearsal = load_task(fixtures_root(), "depotfeed-returns").rehearsal
    return driver_for(agent).launch("Do it.\n", rehearsal, ACCESS)


@pytest.mark.parametrize("agent", PACKAGED_AGENTS)
def test_the_prompt_channel_changes_nothing_and_every_agent_has_it(agent):
    launch = launch_of(agent)
    assert "prompt_prefix" in channels_of(agent)
    assert delivered(agent, launch, "prompt_prefix", TEXT) == launch


@pytest.mark.parametrize(("agent", "channel"), OWN)
def test_the_text_is_a_file_that_the_agent_reads_by_itself_and_the_prompt_stays_whole(
    agent, channel, tmp_path
):
    launch = delivered(agent, launch_of(agent), channel, TEXT)
    assert TEXT not in " ".join(launch.argv)
    place = tmp_path / "deep" / "file"
    argv = [str(place) if word == FILES[agent] else word for word in launch.argv]
    argv = [*argv[: argv.index(str(place)) + 1], "cat"]
    finished = subprocess.run(argv, input=launch.stdin, capture_output=True, check=True)
    assert place.read_text("utf-8") == TEXT
    assert finished.stdout == b"Do it.\n"


@pytest.mark.parametrize(("agent", "channel"), OWN)
def test_an_arm_that_has_nothing_to_say_changes_nothing(agent, channel):
    launch = launch_of(agent)
    assert delivered(agent, launch, channel, "") == launch


def test_the_hook_of_claude_code_is_the_only_setting():
    argv = delivered("claude-code", launch_of("claude-code"), "session_start_hook", TEXT).argv
    settings = json.loads(argv[argv.index("--settings") + 1])
    assert list(settings) == ["hooks"]
    assert list(settings["hooks"]) == ["SessionStart"]
    assert argv[argv.index("--setting-sources") + 1] == ""


@pytest.mark.parametrize(
    ("agent", "arm"),
    [("codex", "curated_file_session_start"), ("claude-code", "curated_file_agents_md")],
)
def test_a_plan_of_an_agent_without_the_channel_is_refused(agent, arm):
    with pytest.raises(UsageError, match="takes memory by"):
        make_plan(request(agents=(agent,), conditions=(arm,)))


def test_a_described_agent_takes_memory_in_its_prompt_alone():
    with pytest.raises(UsageError, match="my-agent takes memory by prompt_prefix"):
        make_plan(
            request(
                agents=("codex",), commands=(described(),), conditions=("curated_file_agents_md",)
            )
        )
    assert make_plan(request(agents=("codex",), conditions=("curated_file_agents_md",))).arms


@pytest.mark.parametrize("agent", ["claude-code", "codex"])
def test_a_tool_server_is_the_launchs_only_one_and_holds_no_text(agent):
    launch = delivered(agent, launch_of(agent), "mcp", "")
    words = " ".join(launch.argv)
    assert (words.count("mcpServers") + words.count("mcp_servers.memory.command"), SOCKET in words) == (1, True)  # fmt: skip
    assert launch.stdin == b"Do it.\n"
    assert ("--strict-mcp-config" in launch.argv) == (agent == "claude-code")


def test_claude_code_puts_tools_into_the_first_request_in_every_arm():
    assert ("ENABLE_TOOL_SEARCH", "false") in launch_of("claude-code").environment


@pytest.mark.parametrize(
    "change",
    [{}, {"adapter": "reference", "adapter_kind": "entry_point"}],
    ids=["curated", "posing"],
)
def test_an_arm_of_tools_needs_a_built_in_memory_system_that_can_serve_them(monkeypatch, change):
    plain = load_conditions(fixtures_root())
    turned = tuple(
        c.model_copy(update={"delivery": "mcp", **change}) if c.id == "curated_file_budgeted" else c
        for c in plain.conditions
    )
    monkeypatch.setattr(
        "orchestrator.pipeline.plan.load_conditions",
        lambda _: plain.model_copy(update={"conditions": turned}),
    )
    with pytest.raises(UsageError, match="expected a built-in adapter that serves tools"):
        make_plan(request(agents=("codex",), conditions=("curated_file_budgeted",)))


@pytest.mark.parametrize(
    ("agent", "name", "space"),
    [
        ("claude-code", "mcp__memory__memory_search", None),
        ("codex", "memory_search", "mcp__memory"),
    ],
)
def test_a_scripted_model_asks_the_tools_first_where_they_are_offered(agent, name, space):
    speech = speech_of(agent)
    assert speech is not None
    script = script_of((load_task(fixtures_root(), "depotfeed-returns"),), {agent: speech})
    by_tool, plain = script.scenarios[:2], script.scenarios[2:]
    for scenario in by_tool:
        call = scenario.turns[0].calls[0]
        assert (call.name, call.namespace) == (name, space)
        assert scenario.offers is not None
    assert [s.offers for s in plain] == [None, None]

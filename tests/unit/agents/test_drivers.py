"""Promise: packaged agents get one profile for every condition: prompt over standard input, token in the environment."""

from __future__ import annotations

import json
import tomllib

import pytest

from orchestrator.agents.claude_code import OFF
from orchestrator.agents.codex import SETTINGS
from orchestrator.agents.registry import AGENTS, PACKAGED_AGENTS, driver_for, speech_of
from orchestrator.core.errors import EnvironmentMissing, UsageError
from orchestrator.core.places import fixtures_root, images_root
from orchestrator.protocols import GatewayAccess
from orchestrator.sandbox.agents import identity_of, read_agent_recipe
from orchestrator.sources.loader import load_task

ACCESS = GatewayAccess(base_url="http://127.0.0.1:8377", token="mtr-agent-secret", model="m-1")
PROMPT = "<memory>\nx\n</memory>\n\n- do 'it' \"now\" $HOME `id`\n\n"


@pytest.fixture(scope="module")
def rehearsal():
    return load_task(fixtures_root(), "depotfeed-returns").rehearsal


@pytest.mark.parametrize("name", PACKAGED_AGENTS)
def test_the_prompt_is_standard_input_and_nothing_else(name, rehearsal):
    launch = driver_for(name).launch(PROMPT, rehearsal, ACCESS)
    assert launch.stdin == PROMPT.encode()
    assert not any("<memory>" in part for part in launch.argv)


@pytest.mark.parametrize("name", PACKAGED_AGENTS)
def test_the_run_token_is_in_one_variable_and_in_no_command_line(name, rehearsal):
    launch = driver_for(name).launch(PROMPT, rehearsal, ACCESS)
    assert [value for _, value in launch.environment].count(ACCESS.token) == 1
    assert not any(ACCESS.token in part for part in launch.argv)


@pytest.mark.parametrize("name", PACKAGED_AGENTS)
def test_the_command_is_the_same_whatever_the_memory(name, rehearsal):
    with_memory = driver_for(name).launch(PROMPT, rehearsal, ACCESS)
    without = driver_for(name).launch("plain", rehearsal, ACCESS)
    assert (with_memory.argv, with_memory.environment) == (without.argv, without.environment)


@pytest.mark.parametrize("name", PACKAGED_AGENTS)
def test_without_a_gateway_no_agent_is_started(name, rehearsal):
    with pytest.raises(EnvironmentMissing, match="expected a gateway"):
        driver_for(name).launch(PROMPT, rehearsal, None)


def test_claude_code_reads_no_settings_and_keeps_no_memory(rehearsal):
    launch = driver_for("claude-code").launch(PROMPT, rehearsal, ACCESS)
    at = launch.argv.index("--setting-sources")
    assert launch.argv[at : at + 4] == ("--setting-sources", "", "--settings", "{}")
    assert "--strict-mcp-config" in launch.argv
    assert {name for name, value in launch.environment if value == "1"} == set(OFF)


def test_codex_is_configured_by_settings_that_are_toml(rehearsal):
    launch = driver_for("codex").launch(PROMPT, rehearsal, ACCESS)
    given = [launch.argv[n + 1] for n, part in enumerate(launch.argv) if part == "-c"]
    parsed = [tomllib.loads(setting) for setting in given]
    assert len(parsed) == len(SETTINGS) + 6
    assert "--strict-config" in launch.argv
    assert json.dumps(parsed).count("127.0.0.1:8377/v1") == 1


def test_an_unknown_agent_is_refused_with_the_names_that_there_are():
    with pytest.raises(UsageError, match="codex"):
        driver_for("codeks")


@pytest.mark.parametrize("name", PACKAGED_AGENTS)
def test_an_agent_is_pinned_to_the_byte(name):
    recipe, identity = read_agent_recipe(images_root(), name), identity_of(images_root(), name)
    pins = {recipe.package.sha256, *(m.sha256 for m in recipe.members), *(w.sha256 for w in recipe.wheels)}  # fmt: skip
    assert len(pins) >= 2
    assert identity.package == recipe.package
    assert recipe.package.integrity.startswith("sha")
    assert recipe.program.startswith(f"opt/memtrial/agents/{name}/")


def test_an_image_that_may_not_be_handed_on_says_so():
    assert not read_agent_recipe(images_root(), "claude-code").published


def test_no_two_agents_share_a_model_id():
    models = [speech.model for name in AGENTS if (speech := speech_of(name))]
    assert len(set(models)) == len(models) == 4

"""Promise: any command line is an agent by a small file, and a file that could not work is refused at once."""

from __future__ import annotations

import json
from typing import Any

import pytest

from orchestrator.agents.command import CommandDriver
from orchestrator.agents.registry import driver_of, speeches_of
from orchestrator.cli.main import main
from orchestrator.core.errors import DocumentError, UsageError
from orchestrator.core.places import fixtures_root
from orchestrator.model.agents import CommandAgent
from orchestrator.pipeline.fits import check_fits, request_of
from orchestrator.pipeline.options import PlanRequest
from orchestrator.protocols import GatewayAccess
from orchestrator.sources.loader import load_task

ACCESS = GatewayAccess(base_url="http://127.0.0.1:8377", token="mtr-agent-secret", model="m-1")
FILE: dict[str, Any] = {
    "schema_version": 1,
    "agent": "my-agent",
    "argv": ["my-agent", "--model", "{model}", "--url", "{base_url}/v1"],
    "environment": [["MY_KEY", "{token}"]],
    "model": "m-1",
    "api": "chat",
    "tool": "bash",
    "argument": "command",
}


def described(**change: object) -> CommandAgent:
    return CommandAgent.parse(json.dumps({**FILE, **change}).encode(), where="agent.json")


@pytest.fixture(scope="module")
def rehearsal():
    return load_task(fixtures_root(), "depotfeed-returns").rehearsal


def test_address_model_token_and_prompt_come_to_their_places(rehearsal):
    launch = CommandDriver(described()).launch("Do it.", rehearsal, ACCESS)
    assert launch.argv == ("my-agent", "--model", "m-1", "--url", "http://127.0.0.1:8377/v1")
    assert launch.environment == (("MY_KEY", "mtr-agent-secret"),)
    assert launch.stdin == b"Do it."


def test_a_prompt_that_looks_like_a_place_stays_as_it_is(rehearsal):
    agent = described(argv=["my-agent", "-p", "{prompt}"], prompt="argument")
    launch = CommandDriver(agent).launch("say {token} {model}", rehearsal, ACCESS)
    assert launch.argv == ("my-agent", "-p", "say {token} {model}")
    assert launch.stdin == b""


@pytest.mark.parametrize(
    "change",
    [
        {"argv": []},
        {"argv": ["a", "{token}"]},
        {"argv": ["a", "{prompt}"]},
        {"argv": ["a", "{nonsense}"]},
        {"prompt": "argument"},
        {"prompt": "pigeon"},
        {"environment": []},
        {"environment": [["A", "{token}"], ["A", "x"]]},
        {"environment": [["A", "{prompt}{token}"]]},
        {"events": "morse"},
        {"agent": "Not A Slug"},
        {"api": "gemini"},
        {"extra": 1},
    ],
)
def test_a_file_that_could_not_work_is_refused(change):
    with pytest.raises(DocumentError):
        described(**change)


def test_a_described_agent_is_part_of_its_plan_and_of_the_request_behind_it(make_plan):
    plan = make_plan(agents=(), commands=(described(),), tasks=("depotfeed-returns",))
    pin = plan.agent("my-agent")
    assert pin.command == described()
    assert (pin.program_sha256, pin.model) == (described().digest_sha256(), "m-1")
    assert driver_of(pin).name == "my-agent"
    assert speeches_of(plan.agents)["my-agent"].tool == "bash"
    assert plan.gateway is not None
    assert plan.gateway.prices.find("m-1") is not None
    asked = request_of(plan)
    check_fits(plan, lambda request: make_plan(**_fields(request)), lambda _: None)
    assert asked.commands == (described(),)


def _fields(request: PlanRequest) -> dict[str, object]:
    return {name: getattr(request, name) for name in PlanRequest.__dataclass_fields__}


def test_it_cannot_take_the_name_of_an_agent_of_ours(make_plan):
    with pytest.raises(UsageError, match="a name of its own"):
        make_plan(agents=(), commands=(described(agent="codex"),), tasks=("depotfeed-returns",))


def test_it_may_stand_on_the_layer_of_a_packaged_agent(make_plan):
    agent = described(layer="codex")
    pin = make_plan(agents=(), commands=(agent,), tasks=("depotfeed-returns",)).agent("my-agent")
    assert pin.identity is not None
    assert pin.identity.package.name == "@openai/codex"


def test_a_check_takes_one_name_or_one_file_and_never_both(tmp_path, capsys):
    path = tmp_path / "agent.json"
    path.write_text(json.dumps(FILE))
    for words in (["check"], ["check", "codex", "--agent-file", str(path)]):
        assert main(["agents", *words]) == 2
        assert "one agent or --agent-file" in capsys.readouterr().err

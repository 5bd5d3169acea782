"""Promise: what breaks from outside is a named infrastructure outcome with evidence; nothing is left."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from orchestrator.core.errors import MemtrialError
from orchestrator.model.outcome import Outcome, outcome_of_error
from orchestrator.model.plan import Plan, TaskPin
from tests.docker.test_workspace import limited, shell

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("nothing_left")]


@pytest.fixture
def task(plan: Plan) -> TaskPin:
    return plan.task("depotfeed-returns")


def role_of(client, container_id: str) -> str:
    command = client.api.inspect_container(container_id)["Config"]["Cmd"]
    return "agent" if any("enter.py" in word for word in command) else "harvester"


def containers_of(client, trial: str) -> dict[str, str]:
    found = client.api.containers(filters={"label": f"memtrial.trial={trial}"})
    return {role_of(client, item["Id"]): item["Id"] for item in found}


def while_it_acts(client, sandbox, task, do: Callable[[dict[str, str]], object], trial: str):
    """Runs a long agent, does something to its containers meanwhile, and returns the error."""

    def work() -> None:
        with sandbox.open(task, trial=trial) as workspace:
            timer = threading.Timer(0.5, do, [containers_of(client, trial)])
            timer.start()
            try:
                workspace.act(shell("sleep 4"))
                workspace.harvest()
            finally:
                timer.join()

    with pytest.raises(MemtrialError) as caught:
        work()
    assert outcome_of_error(caught.value) is Outcome.INFRA_ERROR
    return caught.value


@pytest.mark.parametrize("signal", ["KILL", "TERM"])
def test_a_container_that_is_killed_from_outside_is_no_failure_of_its_agent(
    client, sandbox, task, signal
):
    error = while_it_acts(
        client, sandbox, task, lambda c: client.api.kill(c["agent"], signal), f"kill-{signal}"
    )
    assert error.reference == "container-ended-from-outside"
    assert "kill" in error.message


def test_a_container_that_vanishes_is_no_failure_of_its_agent(client, sandbox, task):
    error = while_it_acts(
        client,
        sandbox,
        task,
        lambda c: client.api.remove_container(c["agent"], force=True),
        "vanish-agent",
    )
    assert error.reference in {"engine-fault", "container-ended-from-outside"}


def test_a_harvester_that_vanishes_is_no_failure_of_the_agent(client, sandbox, task):
    error = while_it_acts(
        client,
        sandbox,
        task,
        lambda c: client.api.remove_container(c["harvester"], force=True),
        "vanish-harvester",
    )
    assert error.reference in {"engine-fault", "trusted-program-failed"}


def test_an_agent_that_kills_itself_and_everything_it_can_is_graded_as_it_is(sandbox, task):
    with sandbox.open(task, trial="self-kill") as workspace:
        acted = workspace.act(shell("echo x > mine.txt; kill -9 -1; kill -9 1; kill -9 $$"))
        harvest = workspace.harvest()
    assert acted.ended == "exited"
    assert [change.path for change in harvest.changes] == ["mine.txt"]


def test_ten_gigabytes_of_output_end_at_the_limit_and_cost_no_more_than_it(sandbox, task):
    bounded = limited(task, output_bytes=1024 * 1024, wall_s=60)
    began = time.monotonic()
    with sandbox.open(bounded, trial="flood") as workspace:
        acted = workspace.act(shell("exec head -c 10737418240 /dev/zero"))
        workspace.harvest()
    assert acted.ended == "output_limit"
    assert len(acted.output) == 1024 * 1024
    assert time.monotonic() - began < 30

"""Promise: what breaks from outside is a named infrastructure outcome with evidence; nothing is left."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import docker
import pytest
from docker.errors import APIError

from orchestrator.core.errors import MemtrialError
from orchestrator.core.places import cache_root
from orchestrator.ledger.chain import read_entries
from orchestrator.ledger.history import replay
from orchestrator.model.outcome import Outcome, outcome_of_error
from orchestrator.model.plan import Plan, TaskPin
from orchestrator.pipeline.run import Run
from orchestrator.pipeline.setup import benches
from orchestrator.sandbox.adapter import DockerSandbox
from orchestrator.sandbox.engine import SOCKET
from orchestrator.sandbox.identity import installation_id
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


class Proxy:
    """A socket before the engine's own that can drop every connection at once, as a crash would."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "p.sock"
        self._lines: list[socket.socket] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.path))
        self._listener.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.socket(socket.AF_UNIX)
            far.connect(str(SOCKET))
            self._lines += [near, far]
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=self._copy, args=(one, other), daemon=True).start()

    @staticmethod
    def _copy(one: socket.socket, other: socket.socket) -> None:
        try:
            while data := one.recv(65536):
                other.sendall(data)
        except OSError:
            pass
        with contextlib.suppress(OSError):
            other.shutdown(socket.SHUT_WR)

    def drop(self) -> None:
        for line in list(self._lines):
            with contextlib.suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listener.close()
        self.drop()
        for line in self._lines:
            line.close()


@pytest.fixture
def proxy(tmp_path_factory) -> Iterator[Proxy]:
    found = Proxy(tmp_path_factory.mktemp("p"))
    yield found
    found.close()


def test_a_lost_connection_is_no_end_of_the_agent(proxy, task):
    through = docker.DockerClient(base_url=f"unix://{proxy.path}", timeout=60)
    sandbox = DockerSandbox(through, installation_id(cache_root()))

    def work() -> None:
        with sandbox.open(task, trial="lost-connection") as workspace:
            timer = threading.Timer(0.5, proxy.drop)
            timer.start()
            workspace.act(shell("sleep 9; echo a line that nobody reads"))

    with contextlib.closing(through), pytest.raises(MemtrialError) as caught:
        work()
    assert caught.value.reference in {"stream-lost", "engine-fault", "trusted-program-failed"}
    assert outcome_of_error(caught.value) is Outcome.INFRA_ERROR


def test_a_verifier_that_vanishes_is_no_failure_of_the_agent(client, plan, results):
    trial = next(t for t in plan.trials if t.key == "depotfeed-returns/no_memory/oracle/e1")
    at_once = plan.model_copy(
        update={
            "trials": (trial,),
            "retry": plan.retry.model_copy(update={"wait_initial_ms": 0, "wait_jitter_ms": 0}),
        }
    )
    done = threading.Event()

    def kill_the_first_verifier() -> None:
        while not done.is_set():
            for item in client.api.containers(filters={"label": f"memtrial.trial={trial.key}"}):
                if (
                    "verify.py" in item["Command"]
                    and f":{os.getpid()}:" in f":{item['Labels']['memtrial.owner']}"
                ):
                    with contextlib.suppress(APIError):
                        client.api.kill(item["Id"])
                        return
            time.sleep(0.02)

    killer = threading.Thread(target=kill_the_first_verifier)
    run = Run.create(results, at_once, engine="test", workers=1)
    sandbox = DockerSandbox(client, installation_id(cache_root()))
    killer.start()
    try:
        left = run.execute(
            benches(at_once, sandbox, client, secret=secrets.token_hex(16)),
            workers=1,
            progress=lambda _: None,
        )
    finally:
        done.set()
        killer.join()
        run.close()
    record = replay(read_entries(run.folder / "ledger.jsonl")[0]).trials[trial.key]
    assert [a.ended.outcome for a in record.attempts if a.ended] == [
        Outcome.INFRA_ERROR,
        Outcome.COMPLETED,
    ]
    assert left == 0

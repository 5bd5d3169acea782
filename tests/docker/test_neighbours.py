"""Promise: what one trial does to its container changes nothing for another at the same time."""

from __future__ import annotations

import re
import threading
import time
from typing import Any

import pytest

from bench.neighbours import Place, alone, beside, same
from orchestrator.core.places import fixtures_root
from orchestrator.model.plan import Plan, TaskPin
from orchestrator.pipeline.arena import arena_plan
from orchestrator.pipeline.options import PlanRequest
from orchestrator.pipeline.setup import make_plan
from orchestrator.protocols import Launch
from orchestrator.sandbox import workspace as workspaces
from orchestrator.sandbox.harden import FIRST_UID, Uids
from orchestrator.sources.attacks import load_attack

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("nothing_left")]

# Takes what the kernel counts for each uid, to the last, and holds it until it is told to stop.
TAKE = """
import ctypes, fcntl, os, signal, time
LIMIT = 4096
libc = ctypes.CDLL(None, use_errno=True)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGRTMIN})
libc.sigqueue.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_void_p)

def watches():
    count = 0
    while count < LIMIT and libc.inotify_init() >= 0:
        count += 1
    return count

def signals():
    count = 0
    while count < 10**6 and libc.sigqueue(os.getpid(), signal.SIGRTMIN, None) == 0:
        count += 1
    return count

def pipes():
    count, kept = 0, []
    try:
        while count < 200:
            kept += os.pipe()
            fcntl.fcntl(kept[-1], fcntl.F_SETPIPE_SZ, 1 << 20)
            count += 1
    except OSError:
        pass
    return count
"""
HOG = (
    TAKE
    + """
watches(), signals(), pipes()
open("/tmp/full", "w").close()
while not os.path.exists("/tmp/go"):
    time.sleep(0.05)
"""
)
COUNT = TAKE + 'print("watches", watches(), "signals", signals(), "pipes", pipes(), flush=True)'


@pytest.fixture
def task(plan: Plan) -> TaskPin:
    return plan.task("depotfeed-returns")


def python(program: str) -> Launch:
    return Launch(argv=("python3", "-c", program), environment=(), stdin=b"")


def counted(sandbox, task) -> dict[str, int]:
    """How much of each a container can get."""
    with sandbox.open(task, trial="test") as workspace:
        said = workspace.act(python(COUNT)).output.decode()
    return {name: int(number) for name, number in re.findall(r"([a-z]+) (\d+)", said)}


def counted_beside_a_hog(client, sandbox, task) -> dict[str, int]:
    """The same while another container holds all that its uid may have."""
    with sandbox.open(task, trial="test") as hog:
        inside = hog.agent_id
        acting = threading.Thread(target=hog.act, args=(python(HOG),))
        acting.start()
        try:
            await_file(client, inside, "/tmp/full")
            return counted(sandbox, task)
        finally:
            client.api.exec_start(client.api.exec_create(inside, ["touch", "/tmp/go"])["Id"])
            acting.join()


def await_file(client, container: str, path: str) -> None:
    for _ in range(1200):
        made: Any = client.api.exec_create(container, ["test", "-e", path])
        client.api.exec_start(made["Id"])
        if client.api.exec_inspect(made["Id"])["ExitCode"] == 0:
            return
        time.sleep(0.05)
    raise AssertionError(f"{path} never came")


def test_what_the_kernel_counts_by_uid_is_not_shared_with_a_neighbour(client, sandbox, task):
    solo = counted(sandbox, task)
    assert min(solo.values()) > 0
    assert counted_beside_a_hog(client, sandbox, task) == solo


def test_it_would_be_if_two_containers_had_one_uid(client, sandbox, task, monkeypatch):
    solo = counted(sandbox, task)
    monkeypatch.setattr(workspaces, "draw_uids", lambda: Uids(FIRST_UID + 4 * 123_456_789))
    shared = counted_beside_a_hog(client, sandbox, task)
    assert {name for name in solo if shared[name] < solo[name]} == set(solo)


def test_three_hostile_trials_change_no_byte_of_three_honest_verdicts(client, sandbox, tmp_path):
    request = PlanRequest(
        agents=("oracle", "noop", "follower"),
        tasks=("depotfeed-returns",),
        conditions=("no_memory",),
    )
    plan = make_plan(request, lambda _: None)
    place = Place(plan, arena_plan(lambda _: None), sandbox, client, tmp_path)
    attacks = [
        load_attack(fixtures_root(), name) for name in ("fork-bomb", "memory-hog", "flood-stdout")
    ]
    solo = alone(place, plan.trials)
    together = beside(place, plan.trials, attacks, workers=6)
    assert sorted(e.verdict.resolved for e in solo if e.verdict) == [False, False, True]
    assert same(solo, together.honest) == [trial.key for trial in plan.trials]
    assert {row.id for row in together.rows} == {attack.card.id for attack in attacks}
    assert not [row.id for row in together.rows if row.succeeded]
    assert min(ended.fewest_hostile for ended in together.honest) >= 1

"""Promise: what an agent used is told by the kernel: memory, CPU, throttling, processes, disk, OOM."""

from __future__ import annotations

import time

import pytest

from orchestrator.model.plan import Plan, TaskPin
from orchestrator.protocols import Launch
from orchestrator.sandbox.cgroups import parse_engine
from orchestrator.sandbox.meter import Meter, reader
from tests.docker.test_workspace import limited, shell

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("nothing_left")]
MIB = 1024 * 1024


@pytest.fixture
def task(plan: Plan) -> TaskPin:
    return plan.task("depotfeed-returns")


def used(sandbox, task, launch):
    with sandbox.open(task, trial="test") as workspace:
        acted = workspace.act(launch)
        workspace.harvest()
        found = workspace.resources()
    assert found is not None
    return acted, found


def python(program: str) -> Launch:
    return Launch(argv=("python3", "-c", program), environment=(), stdin=b"")


def test_the_peak_of_memory_is_the_kernels_high_water_mark(sandbox, task):
    program = f"import time; x = bytearray({120 * MIB}); del x; time.sleep(0.7)"
    _, found = used(sandbox, task, python(program))
    assert found.memory_peak_bytes >= 120 * MIB
    assert found.memory_peak_bytes <= task.limits.memory_bytes
    assert found.source in {"cgroup-v1", "cgroup-v2"}


def test_an_agent_that_wants_more_than_its_cores_is_seen_throttled(sandbox, task):
    program = "import time; t = time.time()\nwhile time.time() - t < 2: pass"
    # A tenth of a core is what it gets of any machine, so it is held back on a busy one too.
    _, found = used(sandbox, limited(task, cpus_milli=100), python(program))
    assert found.throttled_ms > 300
    assert found.throttled_periods > 3
    assert 100 < found.cpu_ms < 1500


def test_an_agent_within_its_cores_is_not(sandbox, task):
    _, found = used(sandbox, limited(task, cpus_milli=2000), shell("sleep 0.5"))
    assert found.throttled_ms == 0


def test_processes_and_refused_forks_are_counted(sandbox, task):
    script = "for i in $(seq 60); do sleep 3 & done 2>/dev/null; wait"
    _, found = used(sandbox, limited(task, pids=40), shell(script))
    assert 30 <= found.pids_peak <= 40
    assert found.forks_refused > 0 or found.source == "engine"


def test_an_agent_without_memory_left_is_told_apart(sandbox, task):
    tight = limited(task, memory_bytes=96 * MIB, work_bytes=16 * MIB)
    acted, found = used(sandbox, tight, python("x = bytearray(500 << 20)"))
    assert acted.ended == "oom_killed"
    assert found.oom_kills >= 1


def test_bytes_and_inodes_of_the_work_area_are_those_of_its_file_system(sandbox, task):
    _, before = used(sandbox, task, shell("true"))
    script = (
        "head -c 5242880 /dev/zero > big; mkdir many; for i in $(seq 100); do : > many/$i; done"
    )
    _, after = used(sandbox, task, shell(script))
    assert after.work_bytes - before.work_bytes == pytest.approx(5 * MIB, abs=MIB // 2)
    assert after.work_inodes - before.work_inodes == 102


def test_what_the_agent_prints_changes_none_of_it(sandbox, task):
    script = 'echo \'{"memory_peak_bytes": 1, "cpu_ms": 0, "oom_kills": 0}\'; sleep 0.3'
    _, found = used(sandbox, task, shell(script))
    assert found.memory_peak_bytes > MIB


def test_the_shortest_agent_has_a_reading(sandbox, task):
    _, found = used(sandbox, task, shell("true"))
    assert found.samples >= 1


def test_the_engines_statistics_and_the_kernels_files_agree(client, sandbox, task):
    with sandbox.open(task, trial="test") as workspace:
        container_id = workspace.agent_id
        own = reader(client, container_id)()
        asked = parse_engine(client.api.stats(container_id, stream=False, one_shot=True))
    assert own is not None
    assert asked is not None
    assert asked.cpu_ns >= own.cpu_ns > 0
    assert (asked.pids_now, asked.throttled_periods) == (own.pids_now, own.throttled_periods)


def test_a_container_that_is_gone_gives_no_reading(client):
    meter = Meter(reader(client, "0" * 64))
    meter.start()
    time.sleep(0.05)
    meter.stop()
    assert meter.resources() is None

"""Promise: an engine that restarts in the middle costs attempts and no trial; nothing recorded is lost.

The engine is one of our own, in its own network namespace and folders: no other engine is touched.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from orchestrator.ledger.chain import read_entries
from orchestrator.ledger.history import RunRecord, replay
from orchestrator.model.outcome import Outcome

pytestmark = pytest.mark.docker


class OwnEngine:
    """A daemon that this test may stop: own network namespace, data, state, pid file and socket."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.socket = folder / "docker.sock"
        self.address = f"unix://{self.socket}"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        script = 'ip link set lo up && exec "$@"'
        daemon = [
            "dockerd",
            f"--data-root={self.folder}/data",
            f"--exec-root={self.folder}/exec",
            f"--pidfile={self.folder}/docker.pid",
            f"--host={self.address}",
            "--bridge=none",
            "--iptables=false",
            "--log-level=error",
        ]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                ["unshare", "-n", "sh", "-c", script, "sh", *daemon],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.await_answer()

    def await_answer(self) -> None:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            assert self.process is not None
            assert self.process.poll() is None, (self.folder / "log").read_text()[-2000:]
            if self._pings():
                return
            time.sleep(0.2)
        pytest.fail("the engine did not start: " + (self.folder / "log").read_text()[-2000:])

    def _pings(self) -> bool:
        # By hand: the client library leaks its connection when nobody listens.
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(20)
            try:
                line.connect(str(self.socket))
                line.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
                return b" 200 " in line.recv(100)
            except OSError:
                return False

    def stop(self) -> None:
        """Ends the daemon by its own number and waits for it; it ends its containers itself."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=90)


@pytest.fixture(scope="module")
def engine() -> Iterator[OwnEngine]:
    folder = Path("/tmp") / f"mt-engine-{os.getpid()}"  # a socket's path must be short
    folder.mkdir()
    own = OwnEngine(folder)
    try:
        own.start()
        yield own
    finally:
        if own.process is not None and own.process.poll() is None:
            own.stop()
        for mount in reversed(Path("/proc/mounts").read_text().splitlines()):
            place = mount.split()[1]
            if place.startswith(f"{folder}/"):
                subprocess.run(["umount", "-l", place], check=False)
        shutil.rmtree(folder, ignore_errors=True)


def memtrial(engine: OwnEngine, results: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "orchestrator", *words],
        env={**os.environ, "MEMTRIAL_RESULTS": str(results), "DOCKER_HOST": engine.address},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ledger_of(results: Path) -> RunRecord:
    return replay(read_entries(results / "latest" / "ledger.jsonl")[0])


def await_stage(results: Path, stage: str) -> None:
    marker = f'"stage":"{stage}"'.encode()
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        found = list(results.glob("2*/ledger.jsonl"))
        if found and marker in found[0].read_bytes():
            return
        time.sleep(0.01)
    pytest.fail(f"no trial came to {stage}")


@pytest.mark.parametrize("stage", ["inject", "harvest"])
def test_a_run_outlives_a_restart_of_its_engine(engine, results, tmp_path, stage):
    plan = tmp_path / "plan.json"
    words = ["--agent", "oracle", "--agent", "noop", "--task", "depotfeed-returns"]
    made = memtrial(engine, results, "plan", *words, "--condition", "no_memory", "--out", str(plan))
    _, said = made.communicate(timeout=600)
    assert made.returncode == 0, said
    run = memtrial(engine, results, "run", str(plan), "--workers", "1")
    await_stage(results, stage)
    engine.stop()
    engine.start()
    _, said = run.communicate(timeout=300)
    assert run.returncode == 0, said
    record = ledger_of(results)
    outcomes = [a.ended.outcome for t in record.trials.values() for a in t.attempts if a.ended]
    assert outcomes.count(Outcome.COMPLETED) == 2
    assert Outcome.INFRA_ERROR in outcomes
    assert set(outcomes) == {Outcome.COMPLETED, Outcome.INFRA_ERROR}
    report = json.loads((results / "latest" / "report.json").read_bytes())
    assert {t["agent"]: t["status"] for t in report["trials"]} == {
        "noop": "unresolved",
        "oracle": "resolved",
    }
    with contextlib.closing(docker.DockerClient(base_url=engine.address)) as client:
        assert client.api.containers(all=True) == []
        assert not client.api.volumes()["Volumes"]

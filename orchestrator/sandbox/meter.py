"""Takes samples of a running container beside the agent: a thread that reads and never writes.

Reads the control group files where this process can see them, else the engine's statistics. Nothing
that runs in the container can reach either.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import docker
from docker.errors import APIError

from orchestrator.model.resources import Resources
from orchestrator.sandbox.cgroups import Sample, files_of, locate, parse_engine, parse_files

FIRST_WAIT_S = 0.02
LONGEST_WAIT_S = 0.25
Read = Callable[[], Sample | None]


class Meter:
    """Samples until it is stopped; `resources` then says what was seen."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._stop = threading.Event()
        self._seen: Sample | None = None
        self._count = 0
        self._thread = threading.Thread(target=self._work, name="meter", daemon=True)

    def start(self) -> None:
        """Takes the first sample at once, so that even the shortest agent has one."""
        self._take()
        self._thread.start()

    def stop(self) -> None:
        """Ends sampling; does not wait for an engine that is slow to answer."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(timeout=1)

    def resources(self, *, oom_killed: bool = False) -> Resources | None:
        """Returns the account so far, or None if the container could not be read at all.

        Args:
            oom_killed: what the engine says of the container's end; the last sample may be older.
        """
        seen = self._seen
        return None if seen is None else _account(seen, self._count, oom_killed=oom_killed)

    def _work(self) -> None:
        wait_s = FIRST_WAIT_S
        # Short waits first: most of a short agent's life is seen, a long one costs little.
        while not self._stop.wait(wait_s) and self._take():
            wait_s = min(wait_s * 1.3, LONGEST_WAIT_S)

    def _take(self) -> bool:
        sample = self._read()
        if sample is None:
            return False
        self._seen = sample if self._seen is None else _later(self._seen, sample)
        self._count += 1
        return True


def reader(client: docker.DockerClient, container_id: str) -> Read:
    """Returns the best way to read a running container from here."""
    try:
        pid = client.api.inspect_container(container_id)["State"]["Pid"]
        places = locate(Path(f"/proc/{pid}/cgroup").read_text(encoding="ascii"), container_id)
    except (APIError, OSError, UnicodeDecodeError):
        places = {}
    if parse_files(files_of(places)) is not None:
        return lambda: parse_files(files_of(places))

    def ask() -> Sample | None:
        try:
            return parse_engine(client.api.stats(container_id, stream=False, one_shot=True))
        except (APIError, OSError):
            return None

    return ask


def _later(before: Sample, now: Sample) -> Sample:
    """Returns the later sample with the highest levels of both: counters only grow, levels do not."""
    return replace(
        now,
        memory_now_bytes=_higher(before.memory_now_bytes, now.memory_now_bytes),
        memory_peak_bytes=_higher(before.memory_peak_bytes, now.memory_peak_bytes),
        pids_now=_higher(before.pids_now, now.pids_now),
        pids_peak=_higher(before.pids_peak, now.pids_peak),
    )


def _higher(one: int | None, other: int | None) -> int | None:
    return max((level for level in (one, other) if level is not None), default=None)


def _account(seen: Sample, samples: int, *, oom_killed: bool) -> Resources:
    return Resources(
        source=seen.source,
        samples=samples,
        memory_peak_bytes=_higher(seen.memory_peak_bytes, seen.memory_now_bytes) or 0,
        memory_peak_exact=seen.memory_peak_bytes is not None,
        cpu_ms=seen.cpu_ns // 1_000_000,
        throttled_ms=seen.throttled_ns // 1_000_000,
        periods=seen.periods,
        throttled_periods=seen.throttled_periods,
        pids_peak=_higher(seen.pids_peak, seen.pids_now) or 0,
        pids_peak_exact=seen.pids_peak is not None,
        forks_refused=seen.forks_refused,
        oom_kills=max(seen.oom_kills, int(oom_killed)),
    )

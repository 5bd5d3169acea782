"""The kernel's account of a container: control group files of version 1 and 2, or the engine's statistics.

Pure but for `files_of`, which reads below /sys/fs/cgroup. Formats: Linux kernel documentation,
"Memory Resource Controller", "CPU bandwidth", "PIDs" (v1) and "Control Group v2"; Docker Engine API,
"Get container stats". Times there are nanoseconds in v1 and in the engine's answer, microseconds in v2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

ROOT = Path("/sys/fs/cgroup")

# (controller, file) of version 1; the controller is a mount of its own there.
_V1 = (
    ("memory", "memory.max_usage_in_bytes"),
    ("memory", "memory.oom_control"),
    ("cpu", "cpu.stat"),
    ("cpuacct", "cpuacct.usage"),
    ("pids", "pids.current"),
    ("pids", "pids.events"),
)
_V2 = (
    "memory.current",
    "memory.peak",
    "memory.events",
    "cpu.stat",
    "pids.current",
    "pids.peak",
    "pids.events",
)


@dataclass(frozen=True, slots=True)
class Sample:
    """One reading. A level is None where only the other of (now, peak) can be read."""

    source: Literal["cgroup-v1", "cgroup-v2", "engine"]
    memory_now_bytes: int | None
    memory_peak_bytes: int | None
    cpu_ns: int
    throttled_ns: int
    periods: int
    throttled_periods: int
    pids_now: int | None
    pids_peak: int | None
    forks_refused: int
    oom_kills: int


def locate(proc_cgroup: str, container_id: str) -> dict[str, Path]:
    """Returns the files of a container by name, from the text of its first process's /proc/PID/cgroup.

    Version 2 has one line `0::PATH`, version 1 one line per controller. Empty if the text is not about
    this container: its process number may belong to another machine or to a later process.
    """
    lines = [line.split(":", 2) for line in proc_cgroup.splitlines() if line.count(":") >= 2]
    paths = {
        controller: path.lstrip("/")
        for _, controllers, path in lines
        for controller in controllers.split(",")
        if container_id in path and ".." not in path.split("/")
    }
    found = {
        name: ROOT / controller / paths[controller] / name
        for controller, name in _V1
        if controller in paths
    }
    if not found and "" in paths:
        found = {name: ROOT / paths[""] / name for name in _V2}
    return found


def files_of(places: Mapping[str, Path]) -> dict[str, str]:
    """Reads the files that are there; empty once the control group is gone."""
    read = {}
    for name, path in places.items():
        try:
            read[name] = path.read_text(encoding="ascii", errors="replace")
        except OSError:
            # Older kernels lack some files, and a dead container lacks all of them.
            continue
    return read


def parse_files(files: Mapping[str, str]) -> Sample | None:
    """Returns the reading in files of either version, or None if they hold none."""
    if "cpuacct.usage" in files:
        return _parse_v1(files)
    if "usage_usec" in _table(files.get("cpu.stat", "")):
        return _parse_v2(files)
    return None


def _parse_v1(files: Mapping[str, str]) -> Sample:
    cpu = _table(files.get("cpu.stat", ""))
    return Sample(
        source="cgroup-v1",
        memory_now_bytes=None,
        memory_peak_bytes=_number(files, "memory.max_usage_in_bytes"),
        cpu_ns=_number(files, "cpuacct.usage") or 0,
        throttled_ns=cpu.get("throttled_time", 0),
        periods=cpu.get("nr_periods", 0),
        throttled_periods=cpu.get("nr_throttled", 0),
        pids_now=_number(files, "pids.current"),
        pids_peak=None,
        forks_refused=_table(files.get("pids.events", "")).get("max", 0),
        oom_kills=_table(files.get("memory.oom_control", "")).get("oom_kill", 0),
    )


def _parse_v2(files: Mapping[str, str]) -> Sample:
    cpu = _table(files.get("cpu.stat", ""))
    return Sample(
        source="cgroup-v2",
        memory_now_bytes=_number(files, "memory.current"),
        memory_peak_bytes=_number(files, "memory.peak"),
        cpu_ns=cpu.get("usage_usec", 0) * 1000,
        throttled_ns=cpu.get("throttled_usec", 0) * 1000,
        periods=cpu.get("nr_periods", 0),
        throttled_periods=cpu.get("nr_throttled", 0),
        pids_now=_number(files, "pids.current"),
        pids_peak=_number(files, "pids.peak"),
        forks_refused=_table(files.get("pids.events", "")).get("max", 0),
        oom_kills=_table(files.get("memory.events", "")).get("oom_kill", 0),
    )


def parse_engine(answer: object) -> Sample | None:
    """Returns the reading in an engine's statistics, or None for a container that is gone.

    Under version 2 the engine gives no peak of memory and under neither one of processes: the highest
    sample stands for it.
    """
    memory, cpu = _part(answer, "memory_stats"), _part(answer, "cpu_stats")
    throttling = _part(cpu, "throttling_data")
    cpu_ns = _int(_part(cpu, "cpu_usage"), "total_usage") or 0
    usage = _int(memory, "usage")
    if usage is None and not cpu_ns:
        return None
    return Sample(
        source="engine",
        memory_now_bytes=usage,
        memory_peak_bytes=_int(memory, "max_usage"),
        cpu_ns=cpu_ns,
        throttled_ns=_int(throttling, "throttled_time") or 0,
        periods=_int(throttling, "periods") or 0,
        throttled_periods=_int(throttling, "throttled_periods") or 0,
        pids_now=_int(_part(answer, "pids_stats"), "current"),
        pids_peak=None,
        forks_refused=0,
        oom_kills=0,
    )


def _number(files: Mapping[str, str], name: str) -> int | None:
    text = files.get(name, "").strip()
    return int(text) if text.isdigit() else None


def _table(text: str) -> dict[str, int]:
    """Returns the `name number` lines of a flat-keyed file; other lines are passed over."""
    pairs = (line.split() for line in text.splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}


def _part(value: object, name: str) -> object:
    return value.get(name) if isinstance(value, dict) else None


def _int(value: object, name: str) -> int | None:
    found = _part(value, name)
    return found if isinstance(found, int) and not isinstance(found, bool) and found >= 0 else None

"""Promise: recorded accounts of both versions of control groups and of engines are read to the unit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.sandbox.cgroups import ROOT, locate, parse_engine, parse_files
from orchestrator.sandbox.meter import Meter

CASES = Path(__file__).resolve().parents[2] / "cases" / "cgroups"
ID = "32f9c1e222b2689eb9a7ac58e1d75f0ec5e318510687cdade7c5b9a098136f9e"


def recorded(name: str) -> dict[str, str]:
    return {path.name: path.read_text() for path in (CASES / name).iterdir()}


def test_version_1_is_read_in_nanoseconds_and_with_the_peak_of_memory():
    sample = parse_files(recorded("v1"))
    assert sample is not None
    assert (sample.source, sample.memory_peak_bytes) == ("cgroup-v1", 55_840_768)
    assert (sample.cpu_ns, sample.throttled_ns) == (548_062_726, 418_724_327)
    assert (sample.periods, sample.throttled_periods) == (13, 10)
    assert (sample.pids_now, sample.pids_peak, sample.forks_refused) == (1, None, 4)
    assert sample.oom_kills == 1


def test_version_2_is_read_in_microseconds_and_with_both_peaks():
    sample = parse_files(recorded("v2"))
    assert sample is not None
    assert (sample.source, sample.memory_peak_bytes) == ("cgroup-v2", 57_413_632)
    assert (sample.memory_now_bytes, sample.pids_now, sample.pids_peak) == (2_703_360, 3, 17)
    assert (sample.cpu_ns, sample.throttled_ns) == (1_052_341_000, 487_210_000)
    assert (sample.periods, sample.throttled_periods) == (31, 12)
    assert (sample.forks_refused, sample.oom_kills) == (2, 1)


def test_version_2_of_an_older_kernel_has_no_peaks_but_its_levels():
    files = {k: v for k, v in recorded("v2").items() if not k.endswith(".peak")}
    sample = parse_files(files)
    assert sample is not None
    assert (sample.memory_peak_bytes, sample.pids_peak) == (None, None)
    assert (sample.memory_now_bytes, sample.pids_now) == (2_703_360, 3)


@pytest.mark.parametrize(
    ("name", "peak", "now"), [("engine-v1", 55_631_872, 55_570_432), ("engine-v2", None, 3_010_560)]
)
def test_an_engines_statistics_are_read_under_both_versions(name, peak, now):
    sample = parse_engine(json.loads((CASES / name / "stats.json").read_text()))
    assert sample is not None
    assert (sample.memory_peak_bytes, sample.memory_now_bytes) == (peak, now)
    assert sample.cpu_ns > 0
    assert sample.throttled_periods == 7
    assert sample.throttled_ns == 187_774_993


def test_the_statistics_of_a_dead_container_are_no_reading():
    dead = {
        "read": "0001-01-01T00:00:00Z",
        "memory_stats": {},
        "cpu_stats": {"cpu_usage": {"total_usage": 0}, "throttling_data": {}},
        "pids_stats": {},
    }
    assert parse_engine(dead) is None
    assert parse_files({}) is None


def test_the_files_of_version_1_lie_below_their_controllers():
    text = (
        f"8:pids:/docker/{ID}\n4:memory:/docker/{ID}\n2:cpu,cpuacct:/docker/{ID}\n0::/docker/{ID}\n"
    )
    found = locate(text, ID)
    assert found["memory.oom_control"] == ROOT / "memory" / "docker" / ID / "memory.oom_control"
    assert found["cpuacct.usage"] == ROOT / "cpuacct" / "docker" / ID / "cpuacct.usage"


def test_the_files_of_version_2_lie_below_one_root():
    found = locate(f"0::/system.slice/docker-{ID}.scope\n", ID)
    assert found["pids.peak"] == ROOT / "system.slice" / f"docker-{ID}.scope" / "pids.peak"


@pytest.mark.parametrize(
    "text",
    ["", "0::/\n", "0::/user.slice/session-1.scope\n", f"0::/../../etc/{ID}\n", "nonsense"],
)
def test_a_process_that_is_not_the_containers_is_not_read(text):
    assert locate(text, ID) == {}


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda x: (
            st.lists(x)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "memory_stats",
                        "cpu_stats",
                        "cpu_usage",
                        "total_usage",
                        "usage",
                        "pids_stats",
                        "current",
                        "throttling_data",
                    ]
                ),
                x,
            )
        ),
    )
)
def test_no_answer_of_an_engine_breaks_the_reading(answer):
    sample = parse_engine(answer)
    assert sample is None or sample.cpu_ns >= 0


def test_the_highest_levels_and_the_last_counters_are_kept():
    files = [recorded("v2") for _ in range(3)]
    for number, (memory, pids, cpu) in enumerate([(100, 9, 10), (900, 2, 20), (300, 4, 30)]):
        files[number]["memory.current"] = f"{memory}\n"
        files[number]["pids.current"] = f"{pids}\n"
        files[number]["cpu.stat"] = f"usage_usec {cpu}000\nthrottled_usec 0\n"
        del files[number]["memory.peak"], files[number]["pids.peak"]
    readings = iter([parse_files(f) for f in files] + [None])
    meter = Meter(lambda: next(readings))
    meter.start()
    meter._thread.join(5)
    found = meter.resources()
    assert found is not None
    assert (found.samples, found.memory_peak_bytes, found.pids_peak) == (3, 900, 9)
    assert (found.cpu_ms, found.memory_peak_exact) == (30, False)


def test_an_end_that_the_engine_calls_out_of_memory_counts_although_no_sample_saw_it():
    files = recorded("v2") | {"memory.events": "oom_kill 0\n"}
    meter = Meter(lambda: parse_files(files))
    meter.start()
    meter.stop()
    found = meter.resources(oom_killed=True)
    assert found is not None
    assert found.oom_kills == 1

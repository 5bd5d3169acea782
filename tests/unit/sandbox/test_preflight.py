"""Promise: what would not fit is refused with both numbers before anything starts; memory limits workers."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.core.errors import EnvironmentMissing
from orchestrator.model.task import Limits
from orchestrator.sandbox.preflight import (
    IMAGE_SET_BYTES,
    MARGIN_BYTES,
    Need,
    available_memory_bytes,
    check_disk,
    crowded_line,
    fitting_workers,
    image_needs,
    results_need,
    trial_memory_bytes,
    workers_line,
)

GIB = 1024**3
LIMITS = Limits(
    wall_s=60,
    cpus_milli=1000,
    memory_bytes=GIB,
    pids=64,
    work_bytes=128 * 1024**2,
    work_inodes=1000,
    output_bytes=4 * 1024**2,
    diff_bytes=1024**2,
)


def test_a_full_disk_is_refused_with_expected_found_and_every_place():
    needs = [Need(Path("/a"), 3 * GIB, "images"), Need(Path("/b"), GIB, "the record")]
    with pytest.raises(EnvironmentMissing) as caught:
        check_disk(needs, free=lambda place: GIB if place == Path("/a") else GIB // 2)
    assert caught.value.exit_code == 4
    assert (
        "expected at least 3.00 GiB free at /a for images, found 1.00 GiB" in caught.value.message
    )
    assert "1.00 GiB free at /b for the record, found 512 MiB" in caught.value.message


def test_enough_is_enough():
    check_disk([Need(Path("/a"), GIB, "x")], free=lambda _: GIB)


def test_a_place_that_is_not_there_yet_is_judged_by_its_parent(tmp_path):
    check_disk([Need(tmp_path / "not" / "yet", 1, "x")])


def test_images_that_are_there_need_little():
    for present, needed in ((True, MARGIN_BYTES), (False, IMAGE_SET_BYTES)):
        needs = image_needs(Path("/cache"), {"DockerRootDir": "/"}, present=present)
        assert [(need.place, need.needed_bytes) for need in needs] == [
            (Path("/cache"), needed),
            (Path("/"), needed),
        ]


def test_the_folder_of_an_engine_elsewhere_is_not_judged():
    engine = {"DockerRootDir": "/no/such/folder"}
    assert len(image_needs(Path("/cache"), engine, present=False)) == 1


def test_the_record_needs_what_its_limits_allow():
    assert results_need(Path("/r"), [LIMITS] * 3).needed_bytes == 15 * 1024**2 + MARGIN_BYTES


def test_a_trial_needs_its_agent_and_harvester_or_two_verifiers():
    assert trial_memory_bytes(LIMITS) == 2 * GIB
    wide = LIMITS.model_copy(update={"work_bytes": 512 * 1024**2})
    assert trial_memory_bytes(wide) == GIB + 3 * GIB


@pytest.mark.parametrize(
    ("asked", "available_gib", "fitting"), [(4, 64, 4), (4, 7, 3), (2, 2, 1), (1, 2, 1)]
)
def test_memory_limits_the_workers(asked, available_gib, fitting):
    assert fitting_workers(asked, [LIMITS], available_gib * GIB) == fitting


def test_the_one_line_says_both_numbers():
    line = workers_line(4, 3, [LIMITS], 7 * GIB)
    assert (
        line
        == "workers: 3 instead of 4: a trial may use 2.00 GiB of memory and 7.00 GiB are available"
    )


def test_a_machine_without_room_for_one_trial_is_refused_with_both_numbers():
    with pytest.raises(
        EnvironmentMissing, match=r"at least 2\.00 GiB .* found 1\.00 GiB"
    ) as caught:
        fitting_workers(1, [LIMITS], GIB)
    assert (caught.value.reference, caught.value.exit_code) == ("memory-too-small", 4)


@pytest.mark.parametrize(
    ("name", "expected"), [("here", 3 * GIB), ("elsewhere", 8 * GIB)], ids=["local", "remote"]
)
def test_a_local_engine_has_what_is_available_and_a_remote_one_its_total(
    tmp_path, monkeypatch, name, expected
):
    meminfo = tmp_path / "meminfo"
    meminfo.write_text(f"MemTotal: 16 kB\nMemAvailable:   {3 * 1024**2} kB\n")
    monkeypatch.setattr("os.uname", lambda: type("U", (), {"nodename": "here"}))
    engine = {"Name": name, "MemTotal": 8 * GIB}
    assert available_memory_bytes(engine, meminfo) == expected


@pytest.mark.parametrize(("workers", "cores"), [(2, 2), (1, 4), (8, 0)])
def test_trials_that_have_their_cores_are_not_talked_about(workers, cores):
    assert crowded_line(workers, [LIMITS] * 3, cores) is None


def test_trials_that_may_want_more_cores_than_there_are_are_told_with_both_numbers():
    said = crowded_line(8, [LIMITS], 2)
    assert said is not None
    assert "8 trials at a time may use 8 cores, the engine has 2" in said

"""Disk and memory before anything starts: what is needed, what is there, and how many trials fit.

Reads file system sizes, /proc/meminfo and the engine's own description; writes nothing. The needs are
upper bounds from limits, so what starts can be finished.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.core.errors import EnvironmentMissing
from orchestrator.model.task import Limits
from orchestrator.sandbox.harden import (
    agent_profile,
    draw_uids,
    harvester_profile,
    verifier_profile,
)

GIB = 1024**3
# Base, language, agent and verifier layers in the cache, and again in the engine.
IMAGE_SET_BYTES = 3 * GIB
# What a machine whose images are there still needs to write: locks, temporary files.
MARGIN_BYTES = 128 * 1024**2
FreeBytes = Callable[[Path], int]


@dataclass(frozen=True, slots=True)
class Need:
    """So much of something at a place, for a purpose."""

    place: Path
    needed_bytes: int
    purpose: str


def free_bytes(place: Path) -> int:
    """Returns what may still be written at a place, or at its nearest parent that exists."""
    while not place.exists():
        place = place.parent
    return shutil.disk_usage(place).free


def check_disk(needs: Iterable[Need], free: FreeBytes = free_bytes) -> None:
    """Refuses a machine without the disk space.

    Raises:
        EnvironmentMissing: with every place that is too small, what was expected there and found.
    """
    short = [(need, found) for need in needs if (found := free(need.place)) < need.needed_bytes]
    if short:
        told = "; ".join(
            f"expected at least {_size(need.needed_bytes)} free at {need.place} for {need.purpose}, found {_size(found)}"
            for need, found in short
        )
        raise EnvironmentMissing(
            "disk-too-small",
            told,
            hint="free that space, or move the folder with MEMTRIAL_CACHE or MEMTRIAL_RESULTS",
        )


def image_needs(cache: Path, engine: dict[str, Any], *, present: bool) -> list[Need]:
    """Returns what making the images takes; little where they are there already."""
    needed = MARGIN_BYTES if present else IMAGE_SET_BYTES
    needs = [Need(cache, needed, "images in the cache")]
    root = Path(str(engine.get("DockerRootDir") or "/var/lib/docker"))
    if root.is_dir() and os.access(root, os.R_OK | os.X_OK):
        needs.append(Need(root, needed, "images in the engine"))
    return needs


def results_need(results: Path, limits: Iterable[Limits]) -> Need:
    """Returns what the record of so many trials may take at most."""
    total = sum(limit.output_bytes + limit.diff_bytes for limit in limits)
    return Need(results, total + MARGIN_BYTES, "the record of the trials that are left")


def trial_memory_bytes(limits: Limits) -> int:
    """Returns the most memory that one trial may use at any time: agent and harvester, then two verifiers."""
    uids = draw_uids()
    acting = agent_profile(limits, uids).memory_bytes + harvester_profile(limits).memory_bytes
    return max(acting, 2 * verifier_profile(limits, 1, uids).memory_bytes)


def available_memory_bytes(engine: dict[str, Any], meminfo: Path = Path("/proc/meminfo")) -> int:
    """Returns the memory that containers may get: the engine's total, and no more than is available here.

    A remote engine's free memory is not known; its total stands for it then.
    """
    total = int(engine.get("MemTotal") or 0)
    local = engine.get("Name") == os.uname().nodename
    available = _available_here(meminfo) if local or not total else None
    return min(available, total) if available and total else available or total


def _available_here(meminfo: Path) -> int | None:
    try:
        lines = meminfo.read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    # proc(5): kibibytes, written "kB".
    sizes = [line.split() for line in lines if line.startswith("MemAvailable:")]
    return int(sizes[0][1]) * 1024 if sizes else None


def fitting_workers(asked: int, limits: Iterable[Limits], available_bytes: int) -> int:
    """Returns how many trials fit into memory at a time, at most as many as asked for.

    Raises:
        EnvironmentMissing: not even one fits.
    """
    largest = max(map(trial_memory_bytes, limits), default=0)
    if largest > available_bytes:
        raise EnvironmentMissing(
            "memory-too-small",
            f"expected at least {_size(largest)} of available memory for one trial, found {_size(available_bytes)}",
            hint="end other programs, or run on a larger machine: limits are part of the plan",
        )
    return min(asked, available_bytes // largest) if largest else asked


def workers_line(asked: int, fitting: int, limits: Iterable[Limits], available_bytes: int) -> str:
    """Says why fewer trials run at a time than were asked for."""
    largest = max(map(trial_memory_bytes, limits), default=0)
    return f"workers: {fitting} instead of {asked}: a trial may use {_size(largest)} of memory and {_size(available_bytes)} are available"


def crowded_line(workers: int, limits: Iterable[Limits], cores: int) -> str | None:
    """Says that trials may have to share cores, which their limits of wall time do not allow for.

    Args:
        workers: trials at a time.
        limits: of the trials.
        cores: of the engine's machine; 0 if it is not known.
    """
    wanted = workers * max((limit.cpus_milli for limit in limits), default=0) / 1000
    if not cores or wanted <= cores:
        return None
    return f"workers: {workers} trials at a time may use {wanted:g} cores, the engine has {cores}: limits of wall time do not wait, so leave trials near one more of it or use fewer workers"


def _size(count: int) -> str:
    return f"{count / GIB:.2f} GiB" if count >= GIB else f"{count / 1024**2:.0f} MiB"

"""What one attempt used of its machine, by the kernel's own accounts; nothing the agent says is in here.

Read by the trusted side while the agent's container lives. A reading is a sample: what the container did
after the last one is not in it, except where the kernel keeps a high-water mark (`*_exact`).
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from orchestrator.model.base import Closed


class Resources(Closed):
    """Use of the agent's container, from its start to the last sample before its end."""

    source: Literal["cgroup-v1", "cgroup-v2", "engine"]
    samples: int = Field(gt=0)
    memory_peak_bytes: int = Field(ge=0)
    memory_peak_exact: bool
    cpu_ms: int = Field(ge=0)
    throttled_ms: int = Field(ge=0)
    periods: int = Field(ge=0)
    throttled_periods: int = Field(ge=0)
    pids_peak: int = Field(ge=0)
    pids_peak_exact: bool
    forks_refused: int = Field(ge=0)
    oom_kills: int = Field(ge=0)
    work_bytes: int | None = Field(default=None, ge=0)
    work_inodes: int | None = Field(default=None, ge=0)


class ArmResources(Closed):
    """The same over the attempts of an arm: maxima of levels, sums of times and counts."""

    measured: int = Field(ge=0)
    memory_peak_bytes: int = Field(ge=0)
    cpu_ms: int = Field(ge=0)
    throttled_ms: int = Field(ge=0)
    throttled_attempts: int = Field(ge=0)
    pids_peak: int = Field(ge=0)
    forks_refused: int = Field(ge=0)
    oom_attempts: int = Field(ge=0)
    work_bytes_max: int = Field(ge=0)
    work_inodes_max: int = Field(ge=0)


def add_up(measured: list[Resources]) -> ArmResources:
    """Returns the figures of an arm from those of its attempts."""
    return ArmResources(
        measured=len(measured),
        memory_peak_bytes=max((r.memory_peak_bytes for r in measured), default=0),
        cpu_ms=sum(r.cpu_ms for r in measured),
        throttled_ms=sum(r.throttled_ms for r in measured),
        throttled_attempts=sum(r.throttled_ms > 0 for r in measured),
        pids_peak=max((r.pids_peak for r in measured), default=0),
        forks_refused=sum(r.forks_refused for r in measured),
        oom_attempts=sum(r.oom_kills > 0 for r in measured),
        work_bytes_max=max((r.work_bytes or 0 for r in measured), default=0),
        work_inodes_max=max((r.work_inodes or 0 for r in measured), default=0),
    )

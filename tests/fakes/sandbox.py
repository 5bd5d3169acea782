"""A sandbox without an engine: containers that behave as told, for tests of everything above the port."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Literal

from orchestrator.model.plan import TaskPin
from orchestrator.model.resources import Resources
from orchestrator.protocols import (
    ActOutcome,
    HarvestOutcome,
    Inventory,
    Launch,
    VerifyJob,
    VerifyOutcome,
)

CLEAN = Inventory(
    environment=(),
    home_entries=(),
    temporary_entries=(),
    interfaces=("lo",),
    processes=2,
    uid=10001,
    capabilities_effective="0000000000000000",
    hostname="sandbox",
)
STILL = ActOutcome(ended="exited", exit_code=0, output=b"", output_truncated=False)
NOTHING_FOUND = VerifyOutcome(
    compiled=True, compile_error=None, timed_out=False, exit_code=1, report=None, log=b""
)
Fault = Callable[[str, str], None]


@dataclass
class FakeWorkspace:
    """One trial's containers, which do nothing."""

    task: TaskPin
    trial: str
    sandbox: FakeSandbox
    inventory: Inventory = CLEAN

    def act(self, launch: Launch) -> ActOutcome:
        self.sandbox.fault(self.trial, "act")
        return replace(STILL, ended=self.sandbox.ended)

    def harvest(self) -> HarvestOutcome:
        self.sandbox.fault(self.trial, "harvest")
        return HarvestOutcome(
            tree=self.task.tree, diff=b"", diff_truncated=False, changes=(), left_out=()
        )

    def resources(self) -> Resources | None:
        return self.sandbox.used

    def container_ms(self) -> int:
        return 0


@dataclass
class FakeSandbox:
    """Opens workspaces that do nothing; `fault` is asked before each step and may raise."""

    fault: Fault = lambda trial, step: None
    ended: Literal["exited", "time_limit", "output_limit", "oom_killed"] = "exited"
    used: Resources | None = None
    opened: list[str] = field(default_factory=list)

    @contextmanager
    def open(self, task: TaskPin, *, trial: str) -> Iterator[FakeWorkspace]:
        self.opened.append(trial)
        self.fault(trial, "open")
        yield FakeWorkspace(task, trial, self)

    def verify(self, job: VerifyJob, *, trial: str) -> tuple[VerifyOutcome, int]:
        self.fault(trial, "verify")
        return NOTHING_FOUND, 0

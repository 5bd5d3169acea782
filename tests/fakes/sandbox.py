"""A sandbox without an engine: containers that behave as told, for tests of everything above the port."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from orchestrator.model.condition import Condition
from orchestrator.model.isolation import Inventory
from orchestrator.model.plan import TaskPin
from orchestrator.model.resources import Resources
from orchestrator.pipeline.isolation import Guard
from orchestrator.protocols import (
    ActOutcome,
    HarvestOutcome,
    Launch,
    VerifyJob,
    VerifyOutcome,
)
from orchestrator.sandbox.declared import INIT, declare
from orchestrator.sandbox.leaks.layers import LayersKnown, listing_sha256
from orchestrator.sandbox.leaks.scanner import Literal as Secret

ARM = Condition(id="no_memory", role="control", summary="nothing", adapter="none")


def clean_inventory(task: TaskPin, *, gateway: bool = False) -> Inventory:
    """An inventory that equals the declaration of an arm that adds nothing, over an image without files."""
    declared = declare(task, ARM, listing_sha256([]), gateway=gateway)
    return Inventory(
        listing_sha256=declared.listing_sha256,
        listing_entries=0,
        work_tree=declared.work_tree,
        files=declared.additions.files,
        files_cut=False,
        environment=declared.environment,
        mounts=tuple(
            mount.model_copy(update={"fs_type": mount.fs_type.replace("*", "overlay")})
            for mount in (*declared.mounts, *declared.additions.mounts)
        ),
        processes=tuple(
            process.model_copy(
                update={
                    "command": tuple(w.replace(INIT, "/sbin/docker-init") for w in process.command)
                }
            )
            for process in declared.processes
        ),
        interfaces=declared.interfaces,
        uid=declared.uid,
        capabilities_effective="0000000000000000",
        hostname=declared.hostname,
    )


def guard_over(oracle: tuple[Secret, ...] = (), *, secret: str = "test") -> Guard:
    """A guard over an image without files."""
    return Guard(
        oracle=oracle,
        image_paths=(),
        run_paths=(),
        secret=secret,
        know=lambda _: LayersKnown((), {}),
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
    contents: tuple[tuple[str, bytes], ...] = ()
    exposed: bytes = b"{}"
    gateway_url: str | None = None

    @property
    def inventory(self) -> Inventory:
        return self.sandbox.inventory or clean_inventory(self.task)

    @property
    def runtime(self) -> str:
        return self.sandbox.runtime

    def listing(self) -> tuple[str, ...]:
        return ()

    def act(self, launch: Launch) -> ActOutcome:
        self.sandbox.fault(self.trial, "act")
        return replace(STILL, ended=self.sandbox.ended, output=self.sandbox.output)

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
    output: bytes = b""
    inventory: Inventory | None = None
    runtime: str = "fake"
    opened: list[str] = field(default_factory=list)

    @contextmanager
    def open(
        self, task: TaskPin, *, trial: str, sockets: Path | None = None
    ) -> Iterator[FakeWorkspace]:
        self.opened.append(trial)
        self.fault(trial, "open")
        yield FakeWorkspace(task, trial, self)

    def verify(self, job: VerifyJob, *, trial: str) -> tuple[VerifyOutcome, int]:
        self.fault(trial, "verify")
        return NOTHING_FOUND, 0

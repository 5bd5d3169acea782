"""The Docker sandbox: implements `protocols.Sandbox` over one shared engine client."""

from __future__ import annotations

import contextlib
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import docker

from orchestrator.core.errors import MemtrialError
from orchestrator.model.plan import TaskPin
from orchestrator.protocols import (
    MemoryBox,
    MemoryProgram,
    VerifyJob,
    VerifyOutcome,
)
from orchestrator.sandbox.containers import Container, EngineFault
from orchestrator.sandbox.engine import answers
from orchestrator.sandbox.harden import draw_uids, verifier_profile
from orchestrator.sandbox.identity import labels
from orchestrator.sandbox.memorybox import DockerMemoryBox
from orchestrator.sandbox.relay import needs_relay, relayed
from orchestrator.sandbox.stopflag import StopFlag
from orchestrator.sandbox.timing import StepClock
from orchestrator.sandbox.verification import Verification
from orchestrator.sandbox.workspace import DockerWorkspace

# The client of the one SDK that this room owns; other rooms name it by this alias only.
EngineClient = docker.DockerClient

ENGINE_PATIENCE_S = 60


class DockerSandbox:
    """Opens workspaces and runs verifications; can abort all of them from another thread.

    Args:
        client: the engine.
        installation: whose the objects are.
        runtime: what runs every container, as the plan has it; None is the engine's own default.
    """

    def __init__(
        self, client: docker.DockerClient, installation: str, *, runtime: str | None = None
    ) -> None:
        self._client = client
        self._runtime = runtime
        self._installation = installation
        self.session = secrets.token_hex(8)
        self._lock = threading.Lock()
        self._open: list[DockerWorkspace | Container | DockerMemoryBox] = []
        self._stop = StopFlag()

    @contextmanager
    def open(
        self, task: TaskPin, *, trial: str, sockets: Path | None = None
    ) -> Iterator[DockerWorkspace]:
        """Starts the containers of a trial; removes them and their volume on exit.

        Raises:
            EngineFault: the engine refused, or did not come back within `ENGINE_PATIENCE_S`.
            Cancelled: the sandbox was aborted.
        """
        self._await_engine()
        marks = labels(self._installation, trial, self.session)
        runtime = self._runtime
        with ExitStack() as stack:
            place = None if sockets is None else str(sockets)
            if sockets is not None and needs_relay(self._client):
                place = stack.enter_context(
                    relayed(self._client, task, sockets, marks, runtime=runtime)
                )
            workspace = DockerWorkspace(
                self._client, task, marks, self._stop, sockets=place, runtime=runtime
            )
            stack.enter_context(self._listed(workspace, "preparing"))
            stack.callback(workspace.close)
            with self._stop.guard("preparing"):
                workspace.open()
            yield workspace

    def _await_engine(self) -> None:
        """Gives a restarting engine time to come back, so that no attempt is spent on its absence."""
        deadline_s = time.monotonic() + ENGINE_PATIENCE_S
        while not answers(self._client):
            if self._stop.wait(0.5):
                self._stop.check("preparing")
            if time.monotonic() > deadline_s:
                raise EngineFault(
                    "engine-lost",
                    f"expected the engine to answer within {ENGINE_PATIENCE_S} s, found none that does",
                    hint="run `memtrial doctor`, then `memtrial resume`",
                )

    def abort(self) -> None:
        """Kills everything that runs, for good: waiting threads come back and raise `Cancelled`.

        The flag goes up before the first kill, so that no thread takes the end of its container for the
        container's own.
        """
        with self._lock:
            self._stop.put_up()
            running = list(self._open)
        for item in running:
            # What cannot be killed now (an engine that is gone) must not keep the others alive.
            with contextlib.suppress(MemtrialError, OSError):
                if isinstance(item, Container):
                    item.kill()
                else:
                    item.abort()

    @contextmanager
    def _listed(self, item: DockerWorkspace | Container, doing: str) -> Iterator[None]:
        """Within the block `abort` finds the item; after an abort there is no block."""
        with self._lock:
            self._stop.check(doing)
            self._open.append(item)
        try:
            yield
        finally:
            with self._lock:
                self._open.remove(item)

    def start_box(
        self, program: MemoryProgram, sockets: Path | None, *, trial: str, image: str
    ) -> MemoryBox:
        """Starts a memory system's program; `abort` ends it, and so does its owner.

        Args:
            program: what is run.
            sockets: the folder of the trial's gateway socket, for a system that may call a model.
            trial: whose it is.
            image: id of the image that it runs in.

        Raises:
            EngineFault: the engine refused.
            Cancelled: the sandbox was aborted.
        """
        self._stop.check("remembering")
        box = DockerMemoryBox(
            self._client,
            program,
            labels(self._installation, trial, self.session),
            self._stop,
            image=image,
            sockets=sockets,
            runtime=self._runtime,
        )
        with self._lock:
            self._open.append(box)
        box.on_close(lambda: self._forget(box))
        return box

    def _forget(self, box: DockerMemoryBox) -> None:
        with self._lock:
            if box in self._open:
                self._open.remove(box)

    def verify(self, job: VerifyJob, *, trial: str) -> tuple[VerifyOutcome, int]:
        """Runs one suite in a fresh container; returns what it gave back and its container time in ms.

        Raises:
            EngineFault: the engine or our own program in the container failed.
            Cancelled: the sandbox was aborted before the tests had come to their end.
        """
        self._stop.check("grading")
        clock = StepClock()
        uids = draw_uids()
        container = Container.start(
            self._client,
            clock,
            verifier_profile(job.task.limits, job.timeout_s, uids),
            image=job.task.verifier_image.id,
            volume=None,
            labels=labels(self._installation, trial, self.session),
            runtime=self._runtime,
        )
        with (
            container,
            self._listed(container, "grading"),
            clock.step(),
            self._stop.guard("grading"),
        ):
            outcome = Verification(container, job, uids).run()
        return outcome, clock.total_ms()

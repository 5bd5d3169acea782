"""The containers of one trial: agent and harvester around a work volume that outlives the agent.

The harvester holds the volume (read-only) before the agent gets its payload, so a kill of the agent's
container neither loses the work nor leaves a writer. Implements `protocols.Workspace`.
"""

from __future__ import annotations

import base64
import contextlib
import json
import secrets
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import docker
from pydantic import TypeAdapter

from orchestrator.core.errors import IntegrityError
from orchestrator.model.isolation import Inventory
from orchestrator.model.plan import TaskPin
from orchestrator.model.resources import Resources
from orchestrator.model.verdict import Change, LeftOut
from orchestrator.protocols import ActOutcome, HarvestOutcome, Launch
from orchestrator.sandbox.account import Account, account_of
from orchestrator.sandbox.containers import Container, EngineFault
from orchestrator.sandbox.ending import end_of
from orchestrator.sandbox.harden import (
    GATEWAY_PORT,
    GATEWAY_SOCKET,
    agent_profile,
    draw_uids,
    harvester_profile,
    volume_options,
)
from orchestrator.sandbox.meter import Meter, reader
from orchestrator.sandbox.stopflag import StopFlag
from orchestrator.sandbox.streams import DeadlinePassed
from orchestrator.sandbox.timing import StepClock
from orchestrator.sandbox.volumes import drop_volume, make_volume

START_TIMEOUT_S = 120
HARVEST_TIMEOUT_S = 300
# Exit code of images/agent/enter.py when the way to the gateway does not stand.
NO_GATEWAY = 113
MAX_INVENTORY_BYTES = 4 * 1024 * 1024
_CHANGES = TypeAdapter(tuple[Change, ...])
_LEFT_OUT = TypeAdapter(tuple[LeftOut, ...])


class DockerWorkspace:
    """One trial's containers. Open, act, harvest, close; each once and in this order."""

    def __init__(
        self,
        client: docker.DockerClient,
        task: TaskPin,
        labels: dict[str, str],
        stop: StopFlag | None = None,
        *,
        sockets: str | None = None,
        runtime: str | None = None,
    ) -> None:
        self._client = client
        self._asked_runtime = runtime
        self._task = task
        self._labels = labels
        self._sockets = sockets
        self._stop = stop or StopFlag()
        self._clock = StepClock()
        self._uids = draw_uids()
        self._volume = f"memtrial-{secrets.token_hex(8)}"
        self._agent: Container | None = None
        self._harvester: Future[Container] | None = None
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="harvester")
        self._account: Account | None = None
        self._meter: Meter | None = None
        self._resources: Resources | None = None
        self._ended = False

    @property
    def inventory(self) -> Inventory:
        """What stood in the container before `act`."""
        return self._opened().inventory

    def _opened(self) -> Account:
        if self._account is None:
            raise IntegrityError(
                "workspace-not-open", "the workspace was not opened", hint="run `memtrial resume`"
            )
        return self._account

    @property
    def agent_id(self) -> str | None:
        """The engine's id of the agent's container while there is one."""
        return self._agent.id if self._agent else None

    def resources(self) -> Resources | None:
        """What the agent's container used; complete after `harvest`, None if it could not be read."""
        return self._resources

    @property
    def contents(self) -> tuple[tuple[str, bytes], ...]:
        """Path and content (in bounds) of the files of the inventory."""
        return self._opened().contents

    @property
    def runtime(self) -> str:
        """What runs the agent's container, by the engine's account."""
        return self._opened().runtime

    @property
    def exposed(self) -> bytes:
        """What the engine says of the agent's container."""
        return self._opened().exposed

    def listing(self) -> tuple[str, ...]:
        """The listing of image files behind the inventory's digest."""
        if self._agent is None:
            return ()
        with self._clock.step():
            self._agent.stream.send_frame({"want": "listing"})
            answer = self._agent.stream.line(
                time.monotonic() + START_TIMEOUT_S,
                max_bytes=MAX_INVENTORY_BYTES,
                who="the agent's container",
            )
        return tuple(map(str, answer.get("listing", ())))

    def container_ms(self) -> int:
        """Wall time so far with a container step under way, in milliseconds."""
        return self._clock.total_ms()

    @property
    def gateway_url(self) -> str | None:
        """Where the agent reaches the gateway, as seen from inside."""
        return f"http://127.0.0.1:{GATEWAY_PORT}" if self._sockets is not None else None

    def open(self) -> None:
        """Makes the volume and starts both containers; the harvester starts beside the agent's."""
        with self._clock.step():
            options = volume_options(self._task.limits, self._uids)
            make_volume(self._client, self._volume, options, self._labels)
        self._harvester = self._pool.submit(self._start, "harvester")
        self._agent = self._start("agent")
        with self._clock.step():
            ready = self._agent.stream.line(
                time.monotonic() + START_TIMEOUT_S,
                max_bytes=MAX_INVENTORY_BYTES,
                who="the agent's container",
            )
            described = self._agent.describe()
        self._account = account_of(ready, described, drawn_uid=self._uids.agent)

    def _start(self, role: str) -> Container:
        limits = self._task.limits
        agent = role == "agent"
        container = Container.start(
            self._client,
            self._clock,
            agent_profile(limits, self._uids) if agent else harvester_profile(limits),
            image=self._task.agent_image.id if agent else self._task.verifier_image.id,
            volume=self._volume,
            labels=self._labels,
            sockets=self._sockets if agent else None,
            runtime=self._asked_runtime,
        )
        try:
            if not agent:
                with self._clock.step():
                    container.stream.line(
                        time.monotonic() + START_TIMEOUT_S, max_bytes=4096, who="the harvester"
                    )
        except BaseException:
            # Nobody else knows this container yet.
            container.remove()
            raise
        return container

    def act(self, launch: Launch) -> ActOutcome:
        """Runs the agent to its end or to a limit; afterwards nothing of it is alive.

        Raises:
            EngineFault: the engine lost the container.
            Cancelled: the sandbox was aborted meanwhile: the agent did not come to its own end.
        """
        with self._stop.guard("the agent acted"):
            return self._act(launch)

    def _act(self, launch: Launch) -> ActOutcome:
        if self._agent is None or self._harvester is None:
            raise IntegrityError(
                "workspace-not-open",
                "act was called on a workspace that is not open",
                hint="run `memtrial resume`",
            )
        self._harvester.result(timeout=START_TIMEOUT_S * 2)
        frame: dict[str, object] = {
            "argv": list(launch.argv),
            "environment": dict(launch.environment),
            "stdin_base64": base64.b64encode(launch.stdin).decode("ascii"),
        }
        if self._sockets is not None:
            frame["forward"] = {"socket": GATEWAY_SOCKET, "port": GATEWAY_PORT}
        with self._clock.step():
            self._meter = Meter(reader(self._client, self._agent.id))
            self._meter.start()
            try:
                ended, output, truncated = self._collect(frame)
                code, out_of_memory = end_of(self._agent, by_itself=ended == "exited")
            finally:
                self._meter.stop()
            self._resources = self._meter.resources(oom_killed=out_of_memory)
        self._ended = True
        if self._sockets is not None and ended == "exited" and code == NO_GATEWAY:
            raise EngineFault(
                "gateway-not-reached",
                "expected the gateway's socket to answer inside the container, found that it does not",
                hint="run `memtrial doctor`: the engine may not share this machine's file system",
            )
        if out_of_memory:
            ended = "oom_killed"
        return ActOutcome(
            ended=ended,  # type: ignore[arg-type]
            exit_code=code if ended == "exited" else None,
            output=output,
            output_truncated=truncated,
        )

    def _collect(self, frame: dict[str, object]) -> tuple[str, bytes, bool]:
        """Sends the payload and reads the agent's output to its end or to a limit."""
        limits = self._task.limits
        stream = self._agent.stream if self._agent else None
        deadline_s = time.monotonic() + limits.wall_s
        output = bytearray()
        if stream is None:
            return "exited", b"", False
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            stream.send_frame(frame)
        try:
            while (piece := stream.chunk(deadline_s)) is not None:
                output += piece[1]
                if len(output) > limits.output_bytes:
                    return "output_limit", bytes(output[: limits.output_bytes]), True
        except DeadlinePassed:
            return "time_limit", bytes(output), False
        return "exited", bytes(output), False

    def harvest(self) -> HarvestOutcome:
        """Reads the work area once, after the agent's container is gone.

        Raises:
            EngineFault: the engine or the harvester failed.
            Cancelled: the sandbox was aborted meanwhile.
        """
        with self._stop.guard("harvesting"):
            return self._harvest()

    def _harvest(self) -> HarvestOutcome:
        if not self._ended or self._harvester is None:
            raise IntegrityError(
                "harvest-before-end",
                "expected the agent's container gone before harvest, found it alive",
                hint="report this as a bug",
            )
        with self._clock.step():
            harvester = self._harvester.result()
            self._measure_work(harvester)
            answer = self._read_work(harvester)
        if "failed" in answer:
            return self._unreadable(str(answer["failed"]))
        return HarvestOutcome(
            tree=str(answer["tree"]),
            diff=base64.b64decode(str(answer["diff_base64"])),
            diff_truncated=bool(answer["diff_truncated"]),
            changes=_CHANGES.validate_json(json.dumps(answer["changes"])),
            left_out=_LEFT_OUT.validate_json(json.dumps(answer["left_out"])),
        )

    def _read_work(self, harvester: Container) -> dict[str, Any]:
        """Has the work area read; a harvester that the area's content defeats is told apart from a fault."""
        limits = self._task.limits
        harvester.stream.send_frame(
            {
                "pinned_tree": self._task.tree,
                "max_diff_bytes": limits.diff_bytes,
                "max_work_bytes": limits.work_bytes,
            }
        )
        try:
            return harvester.stream.line(
                time.monotonic() + HARVEST_TIMEOUT_S,
                max_bytes=256 * 1024 * 1024,
                who="the harvester",
            )
        except DeadlinePassed:
            harvester.detach()
            self._blame_content(harvester)
            return {"failed": f"reading took more than {HARVEST_TIMEOUT_S} s"}
        except IntegrityError as error:
            self._blame_content(harvester)
            return {"failed": error.message}

    def _blame_content(self, harvester: Container) -> None:
        """Makes sure that the harvester ended on what it read, not by us, others or the engine.

        Raises:
            EngineFault: it did not.
        """
        if self._stop.is_up or harvester.meddled():
            raise EngineFault(
                "harvester-ended-from-outside",
                "expected the harvester to read the work area, found it ended from outside",
                hint="run `memtrial resume`",
            )

    def _unreadable(self, why: str) -> HarvestOutcome:
        """A work area that cannot be read is the agent's doing and a verdict, not a fault and a new try."""
        return HarvestOutcome(
            tree=self._task.tree,
            diff=b"",
            diff_truncated=False,
            changes=(),
            left_out=(LeftOut(name=f"the work area: {why}"[:400], reason="unreadable"),),
        )

    def _measure_work(self, harvester: Container) -> None:
        """Asks the file system of the work area how much of it is used; nobody can write to it any more."""
        if self._resources is None:
            return
        said = harvester.output_of(("stat", "-f", "-c", "%S %b %f %c %d", "/work"), timeout_s=30)
        block_bytes, blocks, free, inodes, inodes_free = map(int, said.split())
        self._resources = self._resources.model_copy(
            update={
                "work_bytes": (blocks - free) * block_bytes,
                "work_inodes": inodes - inodes_free,
            }
        )

    def abort(self) -> None:
        """Kills what runs, so that a waiting thread comes back. Callable from another thread."""
        for container in (self._agent, self._harvester_now()):
            if container is not None:
                container.kill()

    def _harvester_now(self) -> Container | None:
        made = self._harvester
        ready = made is not None and made.done() and made.exception() is None
        return made.result() if made is not None and ready else None

    def close(self) -> None:
        """Removes containers and volume, whatever state they are in."""
        with contextlib.ExitStack() as stack:
            stack.callback(self._remove_volume)
            stack.callback(self._pool.shutdown)
            if self._harvester is not None:
                stack.callback(self._remove_harvester)
            if self._agent is not None:
                stack.callback(self._agent.remove)

    def _remove_harvester(self) -> None:
        if self._harvester is not None and self._harvester.exception() is None:
            self._harvester.result().remove()

    def _remove_volume(self) -> None:
        with self._clock.step():
            drop_volume(self._client, self._volume)

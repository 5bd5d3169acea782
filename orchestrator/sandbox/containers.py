"""One container from creation to removal, over the engine's API. No engine command line is used.

A limit ends a container by killing it; nothing here ever relies on ending a client.
"""

from __future__ import annotations

import contextlib
import time
from datetime import datetime
from types import TracebackType
from typing import Any, Self

import docker
from docker.errors import APIError, ImageNotFound, NotFound

from orchestrator.core.clock import unix_time_text
from orchestrator.core.errors import EnvironmentMissing, MemtrialError
from orchestrator.sandbox.harden import Profile, create_options
from orchestrator.sandbox.streams import DeadlinePassed, Stream
from orchestrator.sandbox.timing import StepClock

API_TIMEOUT_S = 120
# What ends or holds up a container from outside. Ours are sent only after a limit was hit.
FOREIGN_EVENTS = ("kill", "stop", "restart", "pause")


class EngineFault(MemtrialError):
    """The engine refused or lost an operation: an infrastructure outcome, never a verdict."""

    exit_code = 4


class Container:
    """A created, attached and started container; removed on exit, whatever happened."""

    def __init__(
        self, client: docker.DockerClient, clock: StepClock, container_id: str, role: str
    ) -> None:
        self._client = client
        self._clock = clock
        self._role = role
        self.id = container_id
        self._stream: Stream | None = None

    @classmethod
    def start(
        cls,
        client: docker.DockerClient,
        clock: StepClock,
        profile: Profile,
        *,
        image: str,
        volume: str | None,
        labels: dict[str, str],
        sockets: str | None = None,
        runtime: str | None = None,
    ) -> Self:
        """Creates, attaches to and starts a container.

        Raises:
            EnvironmentMissing: the image is not in the engine; it is never pulled.
            EngineFault: the engine refused.
        """
        options = create_options(
            profile,
            image=image,
            volume=volume,
            labels=labels,
            sockets=sockets,
            runtime=runtime,
        )
        with clock.step():
            made = _create(client, options)
            container = cls(client, clock, made, profile.role)
            try:
                raw = client.api.attach_socket(
                    made, params={"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}
                )
                container._stream = Stream(raw)
                client.api.start(made)
            except BaseException as error:
                container.remove()
                if isinstance(error, (APIError, OSError)):
                    raise _fault(f"start the {profile.role} container", error) from error
                raise
        return container

    @property
    def stream(self) -> Stream:
        """The attached stream."""
        if self._stream is None:
            raise EngineFault(
                "container-not-attached",
                f"the {self._role} container has no stream",
                hint="run `memtrial resume`",
            )
        return self._stream

    def detach(self) -> None:
        """Stops reading. An engine waits for its readers, so a flooding container ends only after this."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def kill(self) -> None:
        """Ends every process of the container at once; an ended container is left alone."""
        try:
            self._client.api.kill(self.id)
        except (APIError, OSError) as error:
            if getattr(error, "status_code", None) not in {404, 409}:
                raise _fault(f"kill the {self._role} container", error) from error

    def wait(self) -> tuple[int, bool]:
        """Waits for the end; returns (exit code, whether the kernel ended it for want of memory)."""
        try:
            code = int(self._client.api.wait(self.id, timeout=API_TIMEOUT_S)["StatusCode"])
            state = self._client.api.inspect_container(self.id)["State"]
        except (APIError, OSError) as error:
            raise _fault(f"wait for the {self._role} container", error) from error
        if state["Running"]:
            raise EngineFault(
                "container-still-running",
                f"the {self._role} container runs after its end",
                hint="run `memtrial resume`",
            )
        return code, bool(state.get("OOMKilled"))

    def finished_unix_s(self) -> float:
        """Returns when the ended container's first process ended, by the engine's clock."""
        try:
            state = self._client.api.inspect_container(self.id)["State"]
            return datetime.fromisoformat(str(state["FinishedAt"])).timestamp()
        except (APIError, OSError, ValueError) as error:
            raise _fault(f"ask when the {self._role} container ended", error) from error

    def meddled(self) -> tuple[str, ...]:
        """Returns what somebody else did to the container, by the engine's own log of events.

        An ended container cannot tell an agent that ended itself from one that was ended from outside;
        the engine can: only the latter has one of these events.
        """
        filters = {"container": self.id, "event": list(FOREIGN_EVENTS)}
        try:
            # Fractions of a second, which the engine takes and the client's types do not know.
            now: Any = unix_time_text()
            events = self._client.api.events(since=1, until=now, filters=filters, decode=True)
            with contextlib.closing(events):
                return tuple(str(event.get("Action", "")) for event in events)
        except (APIError, OSError) as error:
            raise _fault(f"ask what became of the {self._role} container", error) from error

    def describe(self) -> dict[str, Any]:
        """Returns the engine's own description of the container."""
        try:
            found: dict[str, Any] = self._client.api.inspect_container(self.id)
        except (APIError, OSError) as error:
            raise _fault(f"inspect the {self._role} container", error) from error
        return found

    def begin_exec(
        self,
        argv: tuple[str, ...],
        *,
        user: str,
        environment: dict[str, str],
        folder: str = "/work",
    ) -> tuple[str, Stream]:
        """Starts a second program in the container under another user, without standard input."""
        made = self._create_exec(argv, user=user, environment=environment, folder=folder)
        try:
            return made, Stream(self._client.api.exec_start(made, socket=True))
        except (APIError, OSError) as error:
            raise _fault(f"run a program in the {self._role} container", error) from error

    def detached_exec(
        self, argv: tuple[str, ...], *, user: str, environment: dict[str, str]
    ) -> None:
        """Starts a program whose output nobody reads; it ends with the container."""
        made = self._create_exec(argv, user=user, environment=environment, folder="/work")
        try:
            self._client.api.exec_start(made, detach=True)
        except (APIError, OSError) as error:
            raise _fault(f"run a program in the {self._role} container", error) from error

    def _create_exec(
        self, argv: tuple[str, ...], *, user: str, environment: dict[str, str], folder: str
    ) -> str:
        try:
            made = self._client.api.exec_create(
                self.id,
                list(argv),
                user=user,
                environment=environment,
                workdir=folder,
                stdin=False,
                tty=False,
            )
        except (APIError, OSError) as error:
            raise _fault(f"run a program in the {self._role} container", error) from error
        return str(made["Id"])

    def output_of(self, argv: tuple[str, ...], *, timeout_s: int) -> str:
        """Runs a small trusted program in a trusted container and returns its output.

        Raises:
            EngineFault: it failed or took too long.
        """
        exec_id, stream = self.begin_exec(argv, user="", environment={})
        said = bytearray()
        try:
            while (piece := stream.chunk(time.monotonic() + timeout_s)) is not None:
                said += piece[1][:4096]
        except DeadlinePassed:
            said += b" (no end)"
        finally:
            stream.close()
        if (code := self.exec_exit_code(exec_id)) != 0:
            raise EngineFault(
                "trusted-program-failed",
                f"{argv[0]} in the {self._role} container: expected exit 0, found {code}: {said.decode(errors='replace')[:300]}",
                hint="run `memtrial doctor`, then `memtrial resume`",
            )
        return said.decode("ascii", "replace")

    def await_exec(self, exec_id: str, deadline_s: float) -> int | None:
        """Waits for the end of a program; returns its exit code, or None at the deadline.

        Args:
            exec_id: of `begin_exec`.
            deadline_s: an instant of `time.monotonic()`; one look is taken in any case.
        """
        pause_s = 0.01
        while (code := self.exec_exit_code(exec_id)) is None and time.monotonic() < deadline_s:
            time.sleep(pause_s)
            pause_s = min(pause_s * 2, 0.5)
        return code

    def exec_exit_code(self, exec_id: str) -> int | None:
        """Returns the exit code that the engine saw, or None while the program runs."""
        try:
            found: Any = self._client.api.exec_inspect(exec_id)["ExitCode"]
        except (APIError, OSError) as error:
            raise _fault(f"inspect a program in the {self._role} container", error) from error
        return None if found is None else int(found)

    def remove(self) -> None:
        """Removes the container with force; one that is gone already is fine."""
        with self._clock.step():
            self.detach()
            try:
                self._client.api.remove_container(self.id, force=True, v=True)
            except NotFound:
                pass
            except (APIError, OSError) as error:
                # Another remove of the same container is under way: it will be gone.
                if getattr(error, "status_code", None) != 409:
                    raise _fault(f"remove the {self._role} container", error) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.remove()


def _create(client: docker.DockerClient, options: dict[str, object]) -> str:
    image = str(options["image"])
    try:
        # The image is looked up first: the client's own create would try a registry for a missing one.
        client.api.inspect_image(image)
        created = client.containers.create(**options)  # type: ignore[arg-type]
    except (ImageNotFound, NotFound) as error:
        raise EnvironmentMissing(
            "image-missing",
            f"expected image {image} in the engine, found none (images are never pulled)",
            hint="run `memtrial images`",
        ) from error
    except (APIError, OSError) as error:
        raise _fault("create a container", error) from error
    if created.id is None:
        raise EngineFault(
            "container-without-id",
            "the engine made a container without an id",
            hint="run `memtrial doctor`",
        )
    return created.id


def _fault(what: str, error: Exception) -> EngineFault:
    words = error.explanation if isinstance(error, APIError) and error.explanation else str(error)
    return EngineFault(
        "engine-fault",
        f"could not {what}: {words}",
        hint="run `memtrial doctor`, then `memtrial resume`",
    )

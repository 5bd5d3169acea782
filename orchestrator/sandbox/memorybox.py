"""One memory system's program in a container of its own: lines in, lines out, its files at the end.

The agent's hardened profile: unprivileged uid, read-only root, no capability, no network; the way to the
gateway is a socket and the only one. Its store is a memory-backed volume with limits. Implements
`protocols.MemoryBox`; a limit kills the container, never a client.
"""

from __future__ import annotations

import base64
import contextlib
import io
import secrets
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

import docker
from docker.errors import APIError

from orchestrator.model.task import Limits
from orchestrator.protocols import BoxAnswer, MemoryProgram
from orchestrator.sandbox import boxboot
from orchestrator.sandbox.containers import Container, EngineFault
from orchestrator.sandbox.harden import (
    GATEWAY_PORT,
    GATEWAY_SOCKET,
    MEMORY_LIMITS,
    Profile,
    draw_uids,
    memory_profile,
    volume_options,
)
from orchestrator.sandbox.stopflag import StopFlag
from orchestrator.sandbox.streams import STDERR, DeadlinePassed
from orchestrator.sandbox.timing import StepClock
from orchestrator.sandbox.volumes import drop_volume, make_volume

FOLDER = "/home/agent/program"
STDERR_BYTES = 4000
SHARED = "/tmp:/dev/shm:/dev/mqueue:/proc/sysvipc"  # noqa: S108 - the container's own
"""Where a container's processes can leave something outside its store and HOME."""


class DockerMemoryBox:
    """A running program. Not thread-safe; closed by its owner."""

    def __init__(
        self,
        client: docker.DockerClient,
        program: MemoryProgram,
        labels: dict[str, str],
        stop: StopFlag | None = None,
        *,
        image: str,
        sockets: Path | None = None,
        runtime: str | None = None,
        limits: Limits = MEMORY_LIMITS,
    ) -> None:
        self._client = client
        self._stop = stop or StopFlag()
        self._closed: Callable[[], None] = lambda: None
        self._limits = limits
        self._uids = draw_uids()
        self._volume = f"memtrial-{secrets.token_hex(8)}"
        self._pending = bytearray()
        self._said = 0
        self._stderr = bytearray()
        make_volume(client, self._volume, volume_options(limits, self._uids), labels)
        try:
            self._container = Container.start(
                client,
                StepClock(),
                self._profile(),
                image=image,
                volume=self._volume,
                labels=labels,
                sockets=None if sockets is None else str(sockets),
                runtime=runtime,
            )
        except BaseException:
            drop_volume(client, self._volume)
            raise
        self._begin(program, gateway=sockets is not None)

    def _profile(self) -> Profile:
        boot = Path(boxboot.__file__).read_text(encoding="utf-8")
        command = ("python3", "-I", "-B", "-c", boot)
        return memory_profile(self._limits, self._uids, command)

    def _begin(self, program: MemoryProgram, *, gateway: bool) -> None:
        argv = [f"{FOLDER}/{program.entry}"]
        if program.entry.endswith(".py"):
            argv = ["/usr/bin/env", "python3", "-I", "-B", *argv]
        frame: dict[str, object] = {
            "folder": FOLDER,
            "argv": argv,
            "environment": {
                "HOME": "/home/agent",
                "PATH": "/usr/local/bin:/usr/bin:/bin",
                "LANG": "C.UTF-8",
                "TZ": "UTC",
                "PYTHONHASHSEED": "0",
                "MEMTRIAL_WORK": "/work",
                "TMPDIR": "/tmp",  # noqa: S108 - the container's own
                "MEMTRIAL_SHARED": SHARED,
                "MEMTRIAL_PRODUCT": program.product or "",
                "MEMTRIAL_VARIANT": program.variant or "",
            },
            "files": [
                [path, f"{mode:o}", base64.b64encode(data).decode("ascii")]
                for path, mode, data in program.files
            ],
        }
        if gateway:
            frame |= {"socket": GATEWAY_SOCKET, "port": GATEWAY_PORT}
        # A program that ended at once is found out by the first question.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._container.stream.send_frame(frame)

    @property
    def gateway_url(self) -> str:
        """Where the program reaches the gateway, as seen from inside."""
        return f"http://127.0.0.1:{GATEWAY_PORT}"

    def ask(self, line: bytes, *, limit_s: float, max_bytes: int) -> BoxAnswer:
        """Sends one line and returns the next line of standard output, or why there is none.

        Raises:
            Cancelled: the sandbox was aborted meanwhile: the program did not come to its own end.
        """
        answer = self._ask(line, limit_s, max_bytes)
        if answer.kind != "line":
            self._stop.check("remembering")
        return answer

    def _ask(self, line: bytes, limit_s: float, max_bytes: int) -> BoxAnswer:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._container.stream.send_bytes(line + b"\n")
        deadline_s = time.monotonic() + limit_s
        try:
            while b"\n" not in self._pending:
                piece = self._container.stream.chunk(deadline_s)
                if piece is None:
                    return BoxAnswer("ended", b"", self._why_ended())
                self._hear(*piece)
                if len(self._pending) > max_bytes or self._said > self._limits.output_bytes:
                    self._container.detach()
                    self._container.kill()
                    return BoxAnswer("flooded", b"", f"more than {max_bytes} bytes")
        except DeadlinePassed:
            self._container.detach()
            self._container.kill()
            return BoxAnswer("timed_out", b"", f"no line within {limit_s:g} s")
        found, _, rest = self._pending.partition(b"\n")
        self._pending = bytearray(rest)
        return BoxAnswer("line", bytes(found), "")

    def _hear(self, number: int, data: bytes) -> None:
        self._said += len(data)
        if number == STDERR:
            self._stderr += data
            del self._stderr[:-STDERR_BYTES]
        else:
            self._pending += data

    def _why_ended(self) -> str:
        code, out_of_memory = self._container.wait()
        said = self._stderr.decode("utf-8", "replace").strip() or "nothing"
        how = "out of memory" if out_of_memory else f"exit {code}"
        return f"the program ended ({how}); it said: {said[-600:]}"

    def files(self) -> tuple[tuple[str, bytes], ...]:
        """Returns the files below /work in order; what is no plain file comes with no content.

        Raises:
            EngineFault: the engine did not give them.
        """
        limit = 2 * self._limits.work_bytes
        data = bytearray()
        try:
            stream, _ = self._client.api.get_archive(self._container.id, "/work")
            for piece in stream:
                data += piece
                if len(data) > limit:
                    break
        except (APIError, OSError) as error:
            raise EngineFault(
                "engine-fault",
                f"could not read a memory system's folder: {error}",
                hint="run `memtrial doctor`, then `memtrial resume`",
            ) from error
        return _members(bytes(data))

    def on_close(self, told: Callable[[], None]) -> None:
        """Names who is told of the end."""
        self._closed = told

    def abort(self) -> None:
        """Kills the program, so that a waiting thread comes back. Callable from another thread."""
        self._container.kill()

    def close(self) -> None:
        """Removes the container and its volume."""
        self._closed()
        try:
            self._container.remove()
        finally:
            drop_volume(self._client, self._volume)


def _members(data: bytes) -> tuple[tuple[str, bytes], ...]:
    """Returns names below the folder with their contents; an odd member keeps its name and loses its content."""
    found: dict[str, bytes] = {}
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
        for member in archive:
            name = member.name.partition("/")[2]
            if not name or member.isdir():
                continue
            content = archive.extractfile(member) if member.isfile() else None
            found[name if content else f"{name}\0"] = content.read() if content else b""
    return tuple(sorted(found.items()))

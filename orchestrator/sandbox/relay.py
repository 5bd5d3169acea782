"""The way to the gateway where the engine cannot share a socket of this machine: a container that relays.

It and the agent's container share a volume with one socket; its connections travel over its attached
stream to this process, which connects them to the trial's real socket. No network, on either side.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import docker

from orchestrator.model.plan import TaskPin
from orchestrator.sandbox.containers import Container
from orchestrator.sandbox.harden import draw_uids, relay_profile, relay_volume_options
from orchestrator.sandbox.streams import DeadlinePassed, Stream
from orchestrator.sandbox.timing import StepClock
from orchestrator.sandbox.volumes import drop_volume, make_volume

REACH = "MEMTRIAL_REACH"
HEAD = struct.Struct(">IBI")
OPEN, DATA, END, CLOSED = range(4)
READ_BYTES = 65_536
START_TIMEOUT_S = 120
MAX_FRAME_BYTES = 1024 * 1024
SOCKET_NAME = "gateway.sock"


def needs_relay(client: docker.DockerClient) -> bool:
    """Tells whether the engine cannot be trusted to see a socket of this machine's file system.

    MEMTRIAL_REACH=relay or =socket decides it by hand.
    """
    named = os.environ.get(REACH)
    if named in {"relay", "socket"}:
        return named == "relay"
    if not client.api.base_url.startswith(("http+docker", "http+unix")):
        return True
    facts = client.info()
    rootless = any("rootless" in str(item) for item in facts.get("SecurityOptions") or ())
    return rootless or "desktop" in str(facts.get("OperatingSystem", "")).lower()


@contextmanager
def relayed(
    client: docker.DockerClient,
    task: TaskPin,
    sockets: Path,
    labels: dict[str, str],
    *,
    runtime: str | None = None,
) -> Iterator[str]:
    """Runs a relay beside the block and gives the name of the volume with its socket.

    Raises:
        EngineFault: the engine refused, or the relay did not come up.
    """
    volume = f"memtrial-{secrets.token_hex(8)}"
    uids = draw_uids()
    make_volume(client, volume, relay_volume_options(uids), labels)
    try:
        container = Container.start(
            client,
            StepClock(),
            relay_profile(task.limits, uids),
            image=task.agent_image.id,
            volume=None,
            labels=labels,
            sockets=volume,
            runtime=runtime,
        )
        with container:
            deadline_s = time.monotonic() + START_TIMEOUT_S
            container.stream.line(deadline_s, max_bytes=1024, who="the relay")
            carrier = Carrier(container.stream, sockets / SOCKET_NAME, task.limits.wall_s + 600)
            carrier.start()
            yield volume
            carrier.close()
    finally:
        drop_volume(client, volume)


class Carrier(threading.Thread):
    """Connects what the relay takes with the gateway's socket."""

    def __init__(self, stream: Stream, path: Path, limit_s: float) -> None:
        super().__init__(name="relay", daemon=True)
        self._stream = stream
        self._path = path
        self._deadline_s = time.monotonic() + limit_s
        self._lock = threading.Lock()
        self._open: dict[int, socket.socket] = {}
        self._heard = bytearray()

    def run(self) -> None:
        """Carries until the stream ends."""
        with contextlib.suppress(DeadlinePassed, OSError, ValueError):
            while (piece := self._stream.chunk(self._deadline_s)) is not None:
                if piece[0] == 1:
                    self._heard += piece[1]
                    self._take_frames()
        self._end_all()

    def _take_frames(self) -> None:
        while len(self._heard) >= HEAD.size:
            number, kind, length = HEAD.unpack_from(self._heard)
            if length > MAX_FRAME_BYTES:
                raise ValueError(length)
            if len(self._heard) < HEAD.size + length:
                return
            data = bytes(self._heard[HEAD.size : HEAD.size + length])
            del self._heard[: HEAD.size + length]
            self._hear(number, kind, data)

    def _hear(self, number: int, kind: int, data: bytes) -> None:
        if kind == OPEN:
            self._connect(number)
            return
        gateway = self._open.get(number)
        if gateway is None:
            return
        with contextlib.suppress(OSError):
            if kind == DATA:
                gateway.sendall(data)
            elif kind == END:
                gateway.shutdown(socket.SHUT_WR)

    def _connect(self, number: int) -> None:
        gateway = socket.socket(socket.AF_UNIX)
        try:
            gateway.connect(str(self._path))
        except OSError:
            gateway.close()
            self._say(number, CLOSED)
            return
        self._open[number] = gateway
        threading.Thread(target=self._read, args=(number, gateway), daemon=True).start()

    def _read(self, number: int, gateway: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := gateway.recv(READ_BYTES):
                self._say(number, DATA, data)
        with contextlib.suppress(OSError):
            self._say(number, CLOSED)
        self._open.pop(number, None)
        gateway.close()

    def _say(self, number: int, kind: int, data: bytes = b"") -> None:
        with self._lock:
            self._stream.send_bytes(HEAD.pack(number, kind, len(data)) + data)

    def _end_all(self) -> None:
        for gateway in list(self._open.values()):
            with contextlib.suppress(OSError):
                gateway.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Ends all connections; the stream ends with its container."""
        self._end_all()

"""Self-test of the way to the gateway: does a socket of this machine answer inside a container without network?

Starts one hardened container of an image that is there, with a folder that holds one socket, and removes
both. Writes nothing else and pulls nothing.
"""

from __future__ import annotations

import secrets
import socket
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import docker

from orchestrator.core.errors import MemtrialError
from orchestrator.sandbox.containers import Container
from orchestrator.sandbox.harden import GATEWAY_SOCKET, MIB, Profile, draw_uids
from orchestrator.sandbox.relay import SOCKET_NAME, needs_relay
from orchestrator.sandbox.streams import DeadlinePassed
from orchestrator.sandbox.timing import StepClock

WAIT_S = 30
PROBE = """
import json, os, socket, sys
found = {"networks": sorted(os.listdir("/sys/class/net")), "said": ""}
try:
    with socket.socket(socket.AF_UNIX) as way:
        way.settimeout(10)
        way.connect(sys.argv[1])
        found["said"] = way.recv(64).decode()
except OSError as error:
    found["fault"] = str(error)
print(json.dumps(found), flush=True)
"""


@dataclass(frozen=True, slots=True)
class Reach:
    """By which way an agent would reach the gateway, whether it was seen to work, and what was seen."""

    way: Literal["socket", "relay", "untried"]
    ok: bool
    found: str


def probe_reach(client: docker.DockerClient, labels: dict[str, str]) -> Reach:
    """Tries the way to the gateway that trials on this engine would take."""
    if needs_relay(client):
        return Reach(
            "relay",
            ok=True,
            found="by a relay container: the engine is not trusted to see a socket of this machine",
        )
    images = client.api.images(filters={"label": "memtrial=image"})
    if not images:
        return Reach("untried", ok=True, found="not tried: no image of ours in the engine yet")
    word = secrets.token_hex(8)
    with tempfile.TemporaryDirectory(prefix="memtrial-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        with _Listening(folder / SOCKET_NAME, word):
            return judge(ask_inside(client, str(images[0]["Id"]), folder, labels), word)


def judge(told: dict[str, object], word: str) -> Reach:
    """Says whether the container heard the word, and had no other way out."""
    if told.get("said") != word:
        fault = str(told.get("fault") or "another answer")[:200]
        return Reach("socket", ok=False, found=f"the socket does not answer inside: {fault}")
    if told.get("networks") != ["lo"]:
        return Reach("socket", ok=False, found=f"other networks inside: {told.get('networks')}")
    return Reach("socket", ok=True, found="a socket answers inside a container without network")


def ask_inside(
    client: docker.DockerClient, image: str, folder: Path, labels: dict[str, str]
) -> dict[str, object]:
    """Returns what a container with the folder's socket heard; a fault of the engine is told like a silence."""
    uids = draw_uids()
    profile = Profile(
        role="agent",
        user=f"{uids.agent}:{uids.agent}",
        command=("python3", "-I", "-B", "-c", PROBE, GATEWAY_SOCKET),
        capabilities=(),
        memory_bytes=128 * MIB,
        cpus_milli=1000,
        pids=32,
        tmpfs=(),
        work_mount="none",
    )
    try:
        with Container.start(
            client,
            StepClock(),
            profile,
            image=image,
            volume=None,
            labels=labels,
            sockets=str(folder),
        ) as container:
            deadline_s = time.monotonic() + WAIT_S
            return container.stream.line(deadline_s, max_bytes=4096, who="the probe")
    except DeadlinePassed:
        return {"fault": f"nothing within {WAIT_S} s"}
    except MemtrialError as error:
        return {"fault": error.message}


class _Listening:
    """A socket that says a word to each who connects."""

    def __init__(self, path: Path, word: str) -> None:
        self._word = word
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(path))
        path.chmod(0o666)
        self._socket.listen()
        self._thread = threading.Thread(target=self._serve, name="reach", daemon=True)

    def _serve(self) -> None:
        try:
            while True:
                with self._socket.accept()[0] as client:
                    client.sendall(self._word.encode())
        except OSError:
            return

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(WAIT_S)

"""The first program in a memory system's container: unpacks the system's own program, starts it and waits for it.

Handed over as text and run there, never here: standard library only. Reads one frame from standard input
(length, newline, JSON) and not a byte more, because what follows is the program's. The container has no other init:
the engine's would hold the protocol's pipes open to every process of this uid (`/proc/1/fd`).
"""

from __future__ import annotations

import base64
import ctypes
import json
import os
import runpy
import signal
import socket
import sys
import time
from pathlib import Path

FORWARDER = "/opt/memtrial/agent/forward.py"
PATIENCE_S = 10.0
_PR_SET_DUMPABLE = 4


def seal() -> None:
    """Shuts this process's memory and files to all that is started later; a fork keeps that, an exec ends it."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_DUMPABLE)")


def read_frame() -> dict[str, object]:
    """Returns the frame; unbuffered, byte by byte up to its length."""
    head = b""
    while not head.endswith(b"\n"):
        head += os.read(0, 1)
    left, data = int(head), b""
    while left:
        piece = os.read(0, left)
        data += piece
        left -= len(piece)
    value: dict[str, object] = json.loads(data)  # noqa: TID251 - runs in the container, alone
    return value


def unpack(files: list[list[str]], folder: Path) -> None:
    """Writes the program's files."""
    for path, mode, content in files:
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(base64.b64decode(content))
        target.chmod(int(mode, 8))


def forward(path: str, port: int) -> None:
    """Starts the loopback forwarder to the gateway's socket, and waits until it listens."""
    if os.fork() == 0:
        let_go()
        # Not by exec: it outlives the freeze of a product, so it stays sealed.
        sys.argv = [FORWARDER, path, str(port)]
        runpy.run_path(FORWARDER, run_name="__main__")
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)


def let_go() -> None:
    """Closes this process's way to the protocol; standard error, which is no part of it, stays."""
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    os.dup2(0, 1)


def prepare() -> tuple[list[str], dict[str, str]]:
    """Returns the program's command and environment, once all that it needs is there."""
    frame = read_frame()
    files, argv, environment = frame["files"], frame["argv"], frame["environment"]
    if not (isinstance(files, list) and isinstance(argv, list) and isinstance(environment, dict)):
        raise SystemExit(112)
    unpack(files, Path(str(frame["folder"])))
    if frame.get("socket"):
        forward(str(frame["socket"]), int(str(frame["port"])))
    return [str(word) for word in argv], environment


def tend(program: int) -> int:
    """Reaps what ends in the container until the program does; returns its exit code as a shell tells it."""
    while True:
        ended, status = os.wait()
        if ended == program:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def main() -> int:
    """Starts the program and is its container's init."""
    seal()
    # The kernel shields an init from signals that it has no handler for.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    argv, environment = prepare()
    program = os.fork()
    if program == 0:
        os.chdir("/work")
        os.execve(argv[0], argv, environment)  # noqa: S606 - the program that the arm pins
    let_go()
    return tend(program)


if __name__ == "__main__":
    raise SystemExit(main())

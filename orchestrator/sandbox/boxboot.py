"""The first program in a memory system's container: unpacks the system's own program and becomes it.

Handed over as text and run there, never here: standard library only. Reads one frame from standard input
(length, newline, JSON) and not a byte more, because what follows is the program's.
"""

from __future__ import annotations

import base64
import json
import os
import socket
import sys
import time
from pathlib import Path

FORWARDER = "/opt/memtrial/agent/forward.py"
PATIENCE_S = 10.0


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
        os.dup2(os.open(os.devnull, os.O_RDWR), 0)
        os.dup2(0, 1)
        argv = [sys.executable, "-I", "-B", FORWARDER, path, str(port)]
        os.execv(sys.executable, argv)  # noqa: S606
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)


def main() -> None:
    """Becomes the program."""
    frame = read_frame()
    files, argv, environment = frame["files"], frame["argv"], frame["environment"]
    if not (isinstance(files, list) and isinstance(argv, list) and isinstance(environment, dict)):
        raise SystemExit(112)
    unpack(files, Path(str(frame["folder"])))
    if frame.get("socket"):
        forward(str(frame["socket"]), int(str(frame["port"])))
    os.chdir("/work")
    os.execve(str(argv[0]), [str(word) for word in argv], environment)  # noqa: S606


if __name__ == "__main__":
    main()

"""First program of the agent's container: copies the checkout, takes stock, waits, runs the agent.

Reads the pinned checkout from the image and one frame from standard input (its length in decimal, a
newline, then that many bytes of JSON). Writes the work area, and one line of JSON before any agent
code has run; after that line its output is the agent's and nobody trusts it. Standard library only.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

CHECKOUT = Path("/opt/memtrial/checkout")
WORK = Path("/work")
MAX_FRAME_BYTES = 64 * 1024 * 1024


def read_frame() -> dict[str, object]:
    """Reads one frame; ends the process when the orchestrator is gone."""
    length = sys.stdin.buffer.readline(20).strip()
    if not length.isdigit() or int(length) > MAX_FRAME_BYTES:
        raise SystemExit(3)
    data = sys.stdin.buffer.read(int(length))
    if len(data) != int(length):
        raise SystemExit(3)
    frame = json.loads(data)
    if not isinstance(frame, dict):
        raise SystemExit(3)
    return frame


def copy_checkout() -> None:
    """Fills the empty work area; file modes come along, times and owners do not."""
    for entry in sorted(CHECKOUT.iterdir()):
        target = WORK / entry.name
        if entry.is_symlink():
            target.symlink_to(entry.readlink())
        elif entry.is_dir():
            shutil.copytree(entry, target, symlinks=True, copy_function=shutil.copy)
        else:
            shutil.copy(entry, target)


def capabilities() -> str:
    """Returns the effective capability mask of this process."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("CapEff:"):
            return line.split()[1]
    return "unknown"


def take_stock() -> dict[str, object]:
    """Describes the container as the agent will find it."""
    return {
        "environment": sorted(os.environ.items()),
        "home_entries": sorted(os.listdir(os.environ.get("HOME", "/home/agent"))),
        "temporary_entries": sorted(os.listdir("/tmp")),  # noqa: S108 - the container's own tmpfs
        "interfaces": sorted(os.listdir("/sys/class/net")),
        "processes": sum(name.isdigit() for name in os.listdir("/proc")),
        "uid": os.getuid(),
        "capabilities_effective": capabilities(),
        "hostname": os.uname().nodename,
    }


def main() -> int:
    """Runs one agent to its end and returns its exit code."""
    # A second limit inside the container: without an orchestrator nothing may run for ever.
    signal.alarm(int(sys.argv[1]))
    copy_checkout()
    print(json.dumps({"ready": take_stock()}), flush=True)
    frame = read_frame()
    argv = frame["argv"]
    environment = frame["environment"]
    stdin = frame["stdin_base64"]
    if (
        not isinstance(argv, list)
        or not isinstance(environment, dict)
        or not isinstance(stdin, str)
    ):
        return 3
    finished = subprocess.run(
        [str(part) for part in argv],
        input=base64.b64decode(stdin),
        cwd=WORK,
        env={**os.environ, **{str(k): str(v) for k, v in environment.items()}},
        check=False,
    )
    return finished.returncode if finished.returncode >= 0 else 128 - finished.returncode


if __name__ == "__main__":
    raise SystemExit(main())

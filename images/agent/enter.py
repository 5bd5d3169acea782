"""First program of the agent's container: copies the checkout, takes stock, waits, runs the agent.

Reads the pinned checkout from the image and frames from standard input (length in decimal, a newline,
that many bytes of JSON). Writes the work area, and single lines of JSON before any agent code has run;
after those its output is the agent's and nobody trusts it. Standard library only.
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
FORWARDER = Path("/opt/memtrial/agent/forward.py")
MAX_FRAME_BYTES = 64 * 1024 * 1024
# Said by nothing but this program: the agent was not started.
NO_GATEWAY = 113


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


def start_forwarder(socket_path: str, port: int) -> bool:
    """Starts the way to the gateway; returns whether it stands."""
    forwarder = subprocess.Popen(
        [sys.executable, "-I", "-B", str(FORWARDER), socket_path, str(port)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    )
    return forwarder.stdout is not None and forwarder.stdout.readline() == b"ready\n"


def main() -> int:
    """Runs one agent to its end and returns its exit code."""
    # A second limit inside the container: without an orchestrator nothing may run for ever.
    signal.alarm(int(sys.argv[1]))
    copy_checkout()
    # An isolated interpreter does not look beside the script by itself.
    sys.path.append(str(Path(__file__).parent))
    import stock

    print(json.dumps({"ready": stock.take(CHECKOUT, WORK)}), flush=True)
    frame = read_frame()
    while frame.get("want") == "listing":
        print(json.dumps({"listing": stock.listing()}), flush=True)
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
    forward = frame.get("forward")
    if isinstance(forward, dict) and not start_forwarder(
        str(forward["socket"]), int(forward["port"])
    ):
        return NO_GATEWAY
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

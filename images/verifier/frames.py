"""Frames on standard input and single JSON lines on standard output, for the trusted programs."""

from __future__ import annotations

import json
import sys
from typing import Any

MAX_FRAME_BYTES = 256 * 1024 * 1024


def read_frame() -> dict[str, Any]:
    """Reads one frame: its length in decimal, a newline, then that many bytes of JSON."""
    length = sys.stdin.buffer.readline(20).strip()
    if not length.isdigit() or int(length) > MAX_FRAME_BYTES:
        raise SystemExit(3)
    data = sys.stdin.buffer.read(int(length))
    if len(data) != int(length):
        raise SystemExit(3)
    frame: dict[str, Any] = json.loads(data)
    return frame


def answer(value: dict[str, Any]) -> None:
    """Writes one line of JSON."""
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()

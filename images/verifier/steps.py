"""Runs the steps of a suite one after another and files what each gave as one report.

Started by the engine as the tests' user, with the steps as one JSON argument that the grader made:
`[{"name", "argv", "report"}]`; a step without a report file gives its standard output. Writes the report
file only. Standard library only.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

REPORT = Path("/report/report.xml")
MAX_PART_BYTES = 4 * 1024 * 1024


def run_step(step: dict[str, Any]) -> dict[str, Any]:
    """Runs one step and returns its name, exit code and bounded report."""
    report = step["report"]
    with subprocess.Popen(
        step["argv"], stdout=subprocess.PIPE if report is None else None, stdin=subprocess.DEVNULL
    ) as process:
        data = b""
        if process.stdout is not None:
            data = process.stdout.read(MAX_PART_BYTES + 1)
            # What goes beyond the bound is read and dropped, so that the step can end.
            while process.stdout.read(1 << 16):
                pass
        code = process.wait()
    if report is not None:
        data = read_file(Path(report))
    return {
        "name": step["name"],
        "exit_code": code,
        "data_base64": base64.b64encode(data[:MAX_PART_BYTES]).decode("ascii"),
        "truncated": len(data) > MAX_PART_BYTES,
    }


def read_file(path: Path) -> bytes:
    """Reads a step's report file, as far as it goes and is there."""
    try:
        with path.open("rb") as stream:
            return stream.read(MAX_PART_BYTES + 1)
    except OSError:
        return b""


def main() -> int:
    """Runs all steps and writes the report."""
    parts = [run_step(step) for step in json.loads(sys.argv[1])]
    REPORT.write_text(json.dumps({"parts": parts}), encoding="ascii")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

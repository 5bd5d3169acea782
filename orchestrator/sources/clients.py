"""Runs the ordinary clients of package indexes (npm, apt-get) and git's transport; the one place here that starts processes.

A client only fetches: no package code runs, no setting of the machine's apt is changed. Standard output
and errors are kept for the error text; a client that hangs is ended.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from orchestrator.core.errors import EnvironmentMissing
from orchestrator.sources.closed import check_open

TIMEOUT_S = 900


def run_client(
    argv: Sequence[str],
    *,
    folder: Path,
    environment: Mapping[str, str],
    hint: str,
    timeout_s: int = TIMEOUT_S,
) -> bytes:
    """Runs one client command in a folder and returns its standard output.

    Raises:
        EnvironmentMissing: the client is not there, failed, or took too long; or nothing may be fetched.
    """
    check_open(f"what {' '.join(argv[:2])} would bring")
    if shutil.which(argv[0]) is None:
        raise EnvironmentMissing(
            "client-missing", f"expected {argv[0]} on the PATH, found none", hint=hint
        )
    try:
        finished = subprocess.run(
            list(argv),
            cwd=folder,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=timeout_s,
        )
    except subprocess.TimeoutExpired as error:
        raise EnvironmentMissing(
            "client-timeout",
            f"expected {' '.join(argv[:3])} to end within {timeout_s} s, found it still running",
            hint=hint,
        ) from error
    if finished.returncode != 0:
        words = finished.stderr[-800:].decode("utf-8", "replace").strip()
        raise EnvironmentMissing(
            "client-failed",
            f"expected {' '.join(argv[:3])} to succeed, found exit {finished.returncode}: {words}",
            hint=hint,
        )
    return finished.stdout

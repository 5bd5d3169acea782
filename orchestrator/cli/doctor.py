"""Says what this machine has and lacks for a run, and for each lack the command that mends it.

Changes nothing, but for one container that tries the way to the gateway and is removed again. Exit 0
when a run can start, 4 when something is missing.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from orchestrator.cli import render
from orchestrator.core.errors import EnvironmentMissing, MemtrialError
from orchestrator.core.words import counted

if TYPE_CHECKING:
    from orchestrator.sandbox.adapter import EngineClient


@dataclass(frozen=True, slots=True)
class Finding:
    """One checked thing."""

    name: str
    ok: bool
    found: str
    mend: str


def configure(parser: argparse.ArgumentParser) -> None:
    """The verb has no options of its own."""


def run(arguments: argparse.Namespace) -> int:
    """Checks everything and prints one line each."""
    engine, runtimes = _engine_and_images()
    findings = [_python(), _git(), _disk(), _results(), *engine, _fixtures()]
    missing = [finding for finding in findings if not finding.ok]
    if arguments.json:
        render.document(
            {
                "ok": not missing,
                "checks": [
                    {"name": f.name, "ok": f.ok, "found": f.found, "mend": None if f.ok else f.mend}
                    for f in findings
                ],
                "runtimes": runtimes,
            }
        )
    else:
        for finding in findings:
            render.row(
                f"{'ok     ' if finding.ok else 'missing'} {finding.name:<10} {finding.found}"
                + ("" if finding.ok else f"\n        mend: {finding.mend}")
            )
        render.text(f"next: {missing[0].mend if missing else 'memtrial smoke'}")
    return EnvironmentMissing.exit_code if missing else 0


def _python() -> Finding:
    return Finding(
        "python",
        sys.version_info >= (3, 11),
        sys.version.split()[0],
        "install Python 3.11 or later",
    )


def _git() -> Finding:
    path = shutil.which("git")
    return Finding("git", path is not None, path or "none on PATH", "apt-get install -y git")


def _disk() -> Finding:
    from orchestrator.core.places import cache_root
    from orchestrator.sandbox.preflight import GIB, IMAGE_SET_BYTES, free_bytes

    folder = cache_root()
    free = free_bytes(folder)
    return Finding(
        "disk",
        free >= IMAGE_SET_BYTES,
        f"{free / GIB:.1f} GiB free at {folder}, {IMAGE_SET_BYTES / GIB:.0f} GiB for the images",
        f"free at least {IMAGE_SET_BYTES / GIB:.0f} GiB there, or set MEMTRIAL_CACHE",
    )


def _results() -> Finding:
    from orchestrator.core.files import require_writable
    from orchestrator.core.places import results_root

    folder = results_root()
    try:
        require_writable(folder, "runs are written to it")
    except EnvironmentMissing as error:
        return Finding(
            "results",
            ok=False,
            found=error.message,
            mend="make it writable, or set MEMTRIAL_RESULTS to another folder",
        )
    return Finding("results", ok=True, found=f"{folder} takes files", mend="")


def _engine_and_images() -> tuple[list[Finding], dict[str, object] | None]:
    """Returns the findings about the engine, and its runtimes if one answers."""
    from orchestrator.sandbox.engine import connect, describe, images_present
    from orchestrator.sandbox.preflight import available_memory_bytes
    from orchestrator.sandbox.runtimes import runtimes_line, runtimes_of

    try:
        client = connect()
    except EnvironmentMissing as error:
        lacking = [
            Finding(
                "engine",
                ok=False,
                found="none answers",
                mend="memtrial engine" if "memtrial engine" in error.hint else error.hint,
            ),
            Finding("images", ok=False, found="unknown without an engine", mend="memtrial images"),
        ]
        return lacking, None
    info = client.info()
    runtimes = runtimes_of(info)
    ours = images_present(client)
    there = [
        Finding("engine", ok=True, found=describe(client), mend=""),
        Finding("runtimes", ok=True, found=runtimes_line(runtimes), mend=""),
        Finding("images", ours > 0, f"{ours} of ours in the engine", "memtrial images"),
        _reach(client),
        _memory(available_memory_bytes(info)),
    ]
    return there, {
        "names": list(runtimes.names),
        "default": runtimes.default,
        "stronger": dict(runtimes.stronger),
        "rootless": runtimes.remap == "rootless",
    }


def _reach(client: EngineClient) -> Finding:
    """Tries, in one container that is removed again, whether an agent could reach the gateway."""
    from orchestrator.core.places import cache_root
    from orchestrator.sandbox.identity import installation_id, labels
    from orchestrator.sandbox.reach import probe_reach

    reach = probe_reach(client, labels(installation_id(cache_root()), "doctor"))
    mend = "set MEMTRIAL_REACH=relay, or use an engine of this machine"
    return Finding("reach", reach.ok, reach.found, mend)


def _memory(available: int) -> Finding:
    from orchestrator.core.places import fixtures_root
    from orchestrator.sandbox.preflight import GIB, trial_memory_bytes
    from orchestrator.sources.loader import list_tasks, load_task

    try:
        tasks = [load_task(fixtures_root(), name) for name in list_tasks(fixtures_root())]
    except MemtrialError:
        tasks = []
    needed = max((trial_memory_bytes(task.brief.limits) for task in tasks), default=GIB)
    return Finding(
        "memory",
        available >= needed,
        f"{available / GIB:.1f} GiB available, {needed / GIB:.1f} GiB for a trial: {available // needed} at a time",
        f"free memory: a trial may use {needed / GIB:.1f} GiB",
    )


def _fixtures() -> Finding:
    from orchestrator.core.places import fixtures_root
    from orchestrator.sources.loader import list_tasks, load_conditions, load_task

    fixtures = fixtures_root()
    try:
        conditions = load_conditions(fixtures).conditions
        tasks = [load_task(fixtures, name) for name in list_tasks(fixtures)]
    except MemtrialError as error:
        return Finding("fixtures", ok=False, found=error.message, mend=error.hint)
    return Finding(
        "fixtures",
        bool(tasks),
        f"{counted(len(tasks), 'task')}, {counted(len(conditions), 'condition')} at {fixtures}",
        "restore the fixtures folder",
    )

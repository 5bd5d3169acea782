"""Checks whether a plan could be dispatched under its approval: seventeen numbered steps, nothing is started.

Runs again in an isolated interpreter with an empty environment. The report it writes authorises nothing.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from pathlib import Path

from orchestrator.cli import render
from orchestrator.cli.trust_options import add_repository, add_system, repository_of
from orchestrator.core.errors import UsageError

KEPT = ("HOME", "LANG", "LC_ALL", "PATH", "TERM", "TZ")


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    parser.add_argument("plan", type=Path, metavar="PLAN", help="plan of phase smoke or official")
    parser.add_argument("--approval", required=True, metavar="ID", help="name of the approval")
    parser.add_argument(
        "--report", type=Path, metavar="FILE", help="where the report goes (new file)"
    )
    add_repository(parser)
    add_system(parser)


def run(arguments: argparse.Namespace) -> int:
    """Validates, in an interpreter of its own."""
    from orchestrator.trust.gate.before import ENVIRONMENT

    if not sys.flags.isolated or set(os.environ) - ENVIRONMENT:
        _again(arguments)
    from orchestrator.pipeline.gating import asked_for
    from orchestrator.pipeline.run import read_plan
    from orchestrator.trust.gate.official import STEPS, validate

    if read_plan(arguments.plan).phase == "local":
        raise UsageError(
            "phase-local",
            "expected a plan of phase smoke or official, found phase local, which has its own gate",
            hint="approve it with `memtrial approve local PLAN --max-usd N`, then run it with --live",
        )
    asked = asked_for(
        arguments.plan.read_bytes().rstrip(b"\n"),
        arguments.approval,
        repository=repository_of(arguments),
        system=arguments.system.absolute(),
    )
    found = validate(asked)
    if arguments.report is not None:
        _write_new(arguments.report, found.report.canonical() + b"\n")
    if arguments.json:
        render.document(found.report.model_dump(mode="json"))
    else:
        render.text(
            "gate: VALIDATION ONLY  scope=local_gate_only  dispatch_authorized=false  provider_or_agent_calls=0"
        )
        for step in found.report.steps:
            render.row(f"{step.number:>2} {step.name:<18} {step.status}")
    if found.refusal is not None:
        raise found.refusal
    if not arguments.json:
        render.text(
            f"result: PASS ({len(STEPS)}/{len(STEPS)}), report sha256 {found.report.digest_sha256()}"
        )
        plan, name = shlex.quote(str(arguments.plan)), shlex.quote(arguments.approval)
        render.text(
            f"next: make official PLAN={plan} APPROVAL={name} KEY=LEDGER-KEY.pem, on the supervisor's machine"
        )
    return 0


def _again(arguments: argparse.Namespace) -> None:
    """Becomes an isolated interpreter that keeps nothing of the caller's environment but a few names."""
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    words = [sys.executable, "-I", "-B", "-m", "orchestrator", "gate", *arguments.words]
    os.execve(sys.executable, words, kept)  # noqa: S606 - our own interpreter, with our own words


def _write_new(path: Path, data: bytes) -> None:
    """Writes a report to a new file."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
    with os.fdopen(handle, "wb") as stream:
        stream.write(data)

"""How a task's suite is run and how its report becomes a TestReport. Every command is made here.

The runner's configuration and report lie outside the checkout; the checkout's own configuration is not
read, so a patch cannot change what is run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from orchestrator.model.task import Runner
from orchestrator.model.verdict import TestReport
from orchestrator.protocols import VerifyOutcome
from orchestrator.scoring.junit import parse_junit

Phase = Literal["pass_to_pass", "fail_to_pass"]


@dataclass(frozen=True, slots=True)
class Command:
    """A command with its environment."""

    argv: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]


def command_for(runner: Runner, phase: Phase, hidden_paths: tuple[str, ...]) -> Command:
    """Returns the command of a phase: the base suite, or the hidden tests alone."""
    paths = runner.test_paths if phase == "pass_to_pass" else hidden_paths
    roots = ":".join(f"/work/{root}" if root != "." else "/work" for root in runner.source_roots)
    return Command(
        argv=(
            "python3",
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-o",
            "addopts=",
            "-c",
            "/opt/memtrial/verifier/pytest.ini",
            "--rootdir=/work",
            "--junitxml=/report/report.xml",
            *paths,
        ),
        environment=(
            ("PYTHONPATH", f"/opt/memtrial/python:{roots}"),
            ("HOME", "/tmp"),  # noqa: S108 - the container's own tmpfs
            ("PYTHONHASHSEED", "0"),
        ),
    )


def normalise(outcome: VerifyOutcome, phase: Phase) -> TestReport:
    """Turns what a verification gave back into a TestReport; no report means no test passed."""
    # pytest ends with 0 or 1 after a whole session; any other end was not one, whatever the report says.
    whole = not outcome.timed_out and outcome.exit_code in {0, 1}
    tests = parse_junit(outcome.report) if outcome.report and whole else ()
    return TestReport(
        runner="pytest",
        phase=phase,
        compiled=outcome.compiled,
        compile_error=outcome.compile_error,
        timed_out=outcome.timed_out,
        exit_code=outcome.exit_code,
        tests=tests,
    )

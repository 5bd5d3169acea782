"""Options that the verbs about the trust root share. Imports nothing heavy."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

SYSTEM = Path("/etc/memtrial")
# Commands that read this machine's own part.
TAKE_SYSTEM = ("memtrial gate ", "memtrial approve status", "memtrial approve propose ")


def add_repository(parser: argparse.ArgumentParser) -> None:
    """Adds where the repository is."""
    parser.add_argument(
        "--repository",
        type=Path,
        metavar="DIR",
        help="the clone (default: the one that this runs from, or that the working folder is in)",
    )


def add_system(parser: argparse.ArgumentParser) -> None:
    """Adds where this machine's own part lies."""
    parser.add_argument(
        "--system",
        type=Path,
        default=SYSTEM,
        metavar="DIR",
        help="folder that root alone can write (default: /etc/memtrial)",
    )


def repository_of(arguments: argparse.Namespace) -> Path:
    """Returns the repository, as an absolute path."""
    from orchestrator.pipeline.gating import repository_root

    named: Path | None = arguments.repository
    return named.absolute() if named is not None else repository_root()


def approvals_of(arguments: argparse.Namespace) -> Path:
    """Returns the folder of approvals in the repository."""
    return repository_of(arguments) / "approvals"


def onward(arguments: argparse.Namespace, command: str) -> str:
    """Returns the next command, for the clone and the machine's folder that this one was told to use."""
    if arguments.repository is not None:
        command += f" --repository {shlex.quote(str(arguments.repository))}"
    system = getattr(arguments, "system", SYSTEM)
    if system != SYSTEM and command.startswith(TAKE_SYSTEM):
        command += f" --system {shlex.quote(str(system))}"
    return f"next: {command}"

"""Options that the verbs about the trust root share. Imports nothing heavy."""

from __future__ import annotations

import argparse
from pathlib import Path

SYSTEM = Path("/etc/memtrial")


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

"""Writes a sealed run as one deterministic archive, after a scan for secrets that fails closed.

`memtrial verify ARCHIVE` verifies it without unpacking. --public leaves the blobs out that --withhold
names; verification then lists them and recomputes the rest.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from orchestrator.cli import render
from orchestrator.cli.command import shown_path
from orchestrator.core.errors import UsageError


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    parser.add_argument(
        "run", metavar="RUN", nargs="?", default="latest", help="run id, folder, or latest"
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="default: RUN.tar beside the run")
    parser.add_argument("--public", action="store_true", help="make a copy that leaves blobs out")
    parser.add_argument(
        "--withhold",
        action="append",
        default=[],
        metavar="SHA256",
        help="digest of a blob to leave out of a public copy (repeatable)",
    )
    parser.add_argument(
        "--accept",
        action="append",
        default=[],
        metavar="NAME",
        help="file that was looked at and holds no secret (repeatable)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Writes the archive."""
    from orchestrator.audit.export import Choices, export_run, secret_values
    from orchestrator.audit.trust import Trust
    from orchestrator.core.clock import utc_now_text
    from orchestrator.core.places import results_root
    from orchestrator.pipeline.find import find_run

    if bool(arguments.withhold) != arguments.public:
        raise UsageError(
            "public-without-withhold",
            "expected --public together with --withhold, found one of them alone",
            hint="add the other, or leave both out for the whole bundle",
        )
    folder = find_run(results_root(), arguments.run)
    outcome = export_run(
        folder,
        arguments.out or folder.parent / f"{folder.name}{'.public' * arguments.public}.tar",
        Choices(
            frozenset(arguments.withhold),
            frozenset(arguments.accept) | _planted(),
            secret_values(dict(os.environ)),
        ),
        Trust(now=utc_now_text()),
    )
    if arguments.json:
        render.document(
            {
                "path": str(outcome.path),
                "files": outcome.files,
                "withheld": list(outcome.withheld),
            }
        )
        return 0
    render.text(
        f"{outcome.files} files, {len(outcome.withheld)} withheld: {shown_path(outcome.path)}"
    )
    render.text(f"next: memtrial verify {shown_path(outcome.path)} --keyid KEYID")
    return 0


def _planted() -> frozenset[str]:
    """Digests of the shipped histories: some hold made-up secrets, so that redaction can be tried on them."""
    from orchestrator.core.places import data_root
    from orchestrator.sources.loader import list_tasks, load_task

    fixtures = data_root() / "fixtures"
    return frozenset(
        load_task(fixtures, name).digests.history_sha256 for name in list_tasks(fixtures)
    )

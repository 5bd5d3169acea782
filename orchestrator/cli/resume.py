"""Goes on with a run that stopped: finished trials stay, half-way ones go on from their last stage."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.cli import render
from orchestrator.cli.session import add_workers, finish, work

if TYPE_CHECKING:
    from orchestrator.pipeline.watch import Watch


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    parser.add_argument(
        "run", metavar="RUN", nargs="?", default="latest", help="run id, folder, or latest"
    )
    add_workers(parser)
    parser.add_argument(
        "--supervisor",
        type=Path,
        default=Path("/run/memtrial/supervisor.sock"),
        metavar="PATH",
        help="its socket, for a run of phase smoke or official (default: /run/memtrial/supervisor.sock)",
    )
    parser.add_argument(
        "--full",
        action="store_true",
        help="check every record and blob again, also what a signed checkpoint covers",
    )


def run(arguments: argparse.Namespace) -> int:
    """Finishes the run and prints the report."""
    from orchestrator.core.keys import SigningKey
    from orchestrator.core.places import results_root
    from orchestrator.pipeline.find import find_run
    from orchestrator.pipeline.ledgerkey import check_ledgers_key
    from orchestrator.pipeline.seal import keep_operators_seal
    from orchestrator.pipeline.setup import resume_run
    from orchestrator.pipeline.whole import is_whole

    folder = find_run(results_root(), arguments.run)
    if is_whole(folder, full=arguments.full):
        render.note("nothing is left to run, and the run is sealed: nothing was changed")
        finish(folder, as_json=arguments.json, named=arguments.run, seal=False)
        return 0
    named = os.environ.get("MEMTRIAL_SIGNING_KEY")
    keyid = SigningKey.load(Path(named)).public.keyid if named else None
    keep_operators_seal(folder, "operator" if named else "ephemeral-local")
    check_ledgers_key(folder, keyid)

    def go_on(watch: Watch, workers: int) -> Path:
        resume_run(
            folder,
            watch=watch,
            workers=workers,
            full=arguments.full,
            supervisor=arguments.supervisor,
            sealing_keyid=keyid,
        )
        return folder

    work(go_on, arguments, named=arguments.run)
    return 0

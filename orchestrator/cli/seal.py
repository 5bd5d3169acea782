"""Seals a run's folder into an evidence bundle: statements, checkpoint, list of files, signatures.

`run`, `resume` and `smoke` seal by themselves, with a key that is made for it and thrown away. This verb
seals again: with your own key, or with sigstore bundles beside the statements. Earlier checkpoints stay.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from orchestrator.cli import render
from orchestrator.cli.session import made_reports, seal_folder, told_seal


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    parser.add_argument(
        "run", metavar="RUN", nargs="?", default="latest", help="run id, folder, or latest"
    )
    parser.add_argument(
        "--key",
        type=Path,
        metavar="FILE",
        help="Ed25519 private key in PEM that only you can read (default: MEMTRIAL_SIGNING_KEY, or a key made for this once)",
    )
    parser.add_argument(
        "--sigstore",
        choices=["project", "public"],
        help="also make sigstore bundles: by this project's own offline instance, or by the public one (network and identity)",
    )
    parser.add_argument(
        "--instance",
        type=Path,
        metavar="DIR",
        help="private folder of the own instance (made if missing; default: an instance for this once)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Writes the report and seals."""
    from orchestrator.core.places import results_root
    from orchestrator.pipeline.find import find_run

    folder = find_run(results_root(), arguments.run)
    named = os.environ.get("MEMTRIAL_SIGNING_KEY")
    outcome = seal_folder(
        folder,
        key=arguments.key or (Path(named) if named else None),
        sigstore=arguments.sigstore,
        instance=arguments.instance,
        reports=made_reports(folder)[1],
    )
    if arguments.json:
        render.document(
            {
                "run": folder.name,
                "keyid": outcome.keyid,
                "key_label": outcome.label,
                "files": outcome.files,
                "statements": outcome.statements,
                "records": outcome.records,
            }
        )
        return 0
    render.text(told_seal(outcome))
    render.text(f"next: memtrial verify {folder.name} --keyid {outcome.keyid}")
    return 0

"""Writes the published JSON Schemas to schemas/, or checks that they are what the code says."""

from __future__ import annotations

import argparse
from pathlib import Path

from orchestrator.cli import render
from orchestrator.core.errors import Negative, UsageError


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit 1 on a difference"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="default: the clone's schemas/")


def run(arguments: argparse.Namespace) -> int:
    """Writes or compares the schemas."""
    from orchestrator.core.files import write_atomic
    from orchestrator.core.places import clone_root
    from orchestrator.model.schemas import schema_files

    root = clone_root()
    folder = arguments.out or (root / "schemas" if root else None)
    if folder is None:
        raise UsageError(
            "out-not-given", "expected --out DIR outside a clone, found none", hint="add --out DIR"
        )
    files = schema_files()
    present = (
        {path.name: path.read_bytes() for path in sorted(folder.glob("*.json"))}
        if folder.is_dir()
        else {}
    )
    changed = sorted(name for name in {*files, *present} if files.get(name) != present.get(name))
    if arguments.check and changed:
        raise Negative(
            "schemas-drift",
            f"expected schemas as the code says, found other bytes in {', '.join(changed)}",
            hint="run `memtrial schemas` and commit the result",
        )
    if not arguments.check:
        for name in changed:
            if name in files:
                write_atomic(folder / name, files[name])
            else:
                (folder / name).unlink()
    if arguments.json:
        render.document({"changed": changed, "schemas": sorted(files)})
    else:
        render.text(f"{len(files)} schemas, {len(changed)} changed")
        render.text("next: make check" if root else "next: memtrial doctor")
    return 0

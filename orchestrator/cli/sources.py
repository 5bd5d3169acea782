"""Fetches every pinned source and toolchain package, or moves the verified cache: `memtrial sources [fetch|export|import]`."""

from __future__ import annotations

import argparse
from pathlib import Path

from orchestrator.cli import render
from orchestrator.cli.live import Progress


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    parser.add_argument("what", choices=["fetch", "export", "import"])
    parser.add_argument("folder", type=Path, metavar="DIR", nargs="?", help="of an export")
    parser.add_argument(
        "--layers", action="store_true", help="export the finished base and toolchain layers too"
    )


def run(arguments: argparse.Namespace) -> int:
    """Fetches or moves, and says how much."""
    from orchestrator.core.errors import UsageError
    from orchestrator.core.places import cache_root
    from orchestrator.pipeline.moving import needed_files
    from orchestrator.sources.transfer import export_cache, import_cache

    cache = cache_root()
    if arguments.what != "fetch" and arguments.folder is None:
        raise UsageError(
            "folder-not-given",
            f"expected a folder to {arguments.what}, found none",
            hint=f"memtrial sources {arguments.what} DIR",
        )
    if arguments.what == "import":
        files = [(f.path, f.bytes) for f in import_cache(arguments.folder, cache).files]
        after = "memtrial images"
    else:
        paths = needed_files(Progress().say, layers=arguments.layers)
        files = [(path.relative_to(cache).as_posix(), path.stat().st_size) for path in set(paths)]
        after = "memtrial images"
        if arguments.what == "export":
            export_cache(cache, paths, arguments.folder)
            after = (
                f"copy {arguments.folder} and run there: memtrial sources import {arguments.folder}"
            )
    if arguments.json:
        render.document({"files": len(files), "bytes": sum(size for _, size in files)})
        return 0
    render.text(
        f"{len(files)} files, {sum(size for _, size in files) / 1e6:.0f} MB, every hash as pinned"
    )
    render.text(f"next: {after}")
    return 0

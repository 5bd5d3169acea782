"""Removes what dead memtrial processes left in the engine; never anything that is not labelled as ours."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from orchestrator.cli import render

if TYPE_CHECKING:
    from orchestrator.sandbox.reaper import Found


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    parser.add_argument(
        "--dry-run", action="store_true", help="say what would be removed and remove nothing"
    )


def run(arguments: argparse.Namespace) -> int:
    """Removes orphans and says what went, what stayed and why."""
    from orchestrator.core.places import cache_root
    from orchestrator.sandbox.engine import connect
    from orchestrator.sandbox.identity import installation_id
    from orchestrator.sandbox.reaper import objects_line, reap

    reaped = reap(connect(), installation_id(cache_root()), look_only=arguments.dry_run)
    if arguments.json:
        render.document(
            {
                "dry_run": bool(arguments.dry_run),
                "containers": reaped.count("container"),
                "volumes": reaped.count("volume"),
                "networks": reaped.count("network"),
                "removed": [_shown(item) for item in reaped.removed],
                "kept": [_shown(item) for item in reaped.kept],
            }
        )
        return 0
    for item in (*reaped.removed, *reaped.kept):
        does = "kept" if not item.remove else "would remove" if arguments.dry_run else "removed"
        render.row(f"{does} {item.kind} {item.name[:32]} of {item.trial or 'no trial'}: {item.why}")
    render.text(
        f"{'would remove' if arguments.dry_run else 'removed'} {objects_line(reaped)} of dead runs"
    )
    render.text("next: memtrial clean" if arguments.dry_run else "next: memtrial smoke")
    return 0


def _shown(item: Found) -> dict[str, str]:
    return {"kind": item.kind, "name": item.name, "trial": item.trial, "why": item.why}

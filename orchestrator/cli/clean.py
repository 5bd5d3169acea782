"""Removes what dead memtrial processes left in the engine; never anything that is not labelled as ours."""

from __future__ import annotations

import argparse

from orchestrator.cli import render


def configure(parser: argparse.ArgumentParser) -> None:
    """The verb has no options of its own."""


def run(arguments: argparse.Namespace) -> int:
    """Removes orphans and says how many there were."""
    from orchestrator.core.places import cache_root
    from orchestrator.sandbox.engine import connect
    from orchestrator.sandbox.identity import installation_id
    from orchestrator.sandbox.reaper import reap

    reaped = reap(connect(), installation_id(cache_root()))
    if arguments.json:
        render.document(
            {
                "containers": reaped.containers,
                "volumes": reaped.volumes,
                "networks": reaped.networks,
            }
        )
        return 0
    render.text(
        f"removed {reaped.containers} containers, {reaped.volumes} volumes, {reaped.networks} networks of dead runs"
    )
    render.text("next: memtrial smoke")
    return 0

"""Reaches a Docker engine; on Debian or Ubuntu as root, installs and starts one where there is none.

An engine that is there is used as it is. MEMTRIAL_ENGINE=keep forbids installing and starting.
"""

from __future__ import annotations

import argparse

from orchestrator.cli import render
from orchestrator.cli.live import Progress


def configure(parser: argparse.ArgumentParser) -> None:
    """The verb has no options of its own."""


def run(arguments: argparse.Namespace) -> int:
    """Makes sure that an engine answers."""
    from orchestrator.sandbox.engine import describe, ensure_engine

    client = ensure_engine(Progress().say, allow_install=True)
    if arguments.json:
        render.document({"engine": describe(client)})
        return 0
    render.text(f"engine: {describe(client)}")
    render.text("next: memtrial images")
    return 0

"""Makes the images that are missing: base, language, agent, verifier, and one pair per task.

Unchanged inputs build nothing. --write-lock records the present images in images/lock.json.
"""

from __future__ import annotations

import argparse

from orchestrator.cli import render
from orchestrator.cli.live import Progress


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    parser.add_argument(
        "--write-lock",
        action="store_true",
        help="for maintainers: record the images in images/lock.json",
    )


def run(arguments: argparse.Namespace) -> int:
    """Makes the images and says their ids."""
    from orchestrator.pipeline.setup import make_images

    made = make_images(Progress().say, write_lock_file=arguments.write_lock)
    if arguments.json:
        render.document(made)
        return 0
    for name, image_id in made.items():
        render.row(f"{name:<44} {image_id}")
    render.text("next: memtrial smoke")
    return 0

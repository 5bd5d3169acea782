"""Keeps a run's signed checkpoint elsewhere: in a folder, or on a branch of a local git repository.

Whoever keeps a checkpoint can show later that records were cut off or replaced:
`memtrial verify RUN --checkpoint FILE`. Push the branch, or copy the folder, to a place of somebody else.
"""

from __future__ import annotations

import argparse

from orchestrator.cli import render


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    parser.add_argument("action", choices=["publish"])
    parser.add_argument(
        "run", metavar="RUN", nargs="?", default="latest", help="run id, folder, or latest"
    )
    parser.add_argument("--to", required=True, metavar="DIR|git:REPOSITORY")


def run(arguments: argparse.Namespace) -> int:
    """Publishes the checkpoint."""
    from orchestrator.core.places import results_root
    from orchestrator.pipeline.find import find_run
    from orchestrator.pipeline.mirror import publish_checkpoint

    folder = find_run(results_root(), arguments.run)
    done = publish_checkpoint(folder, arguments.to)
    if arguments.json:
        render.document(
            {
                "place": done.place,
                "size": done.size,
                "continued": done.continued,
                "new": done.new,
            }
        )
        return 0
    render.text(
        f"checkpoint of {done.size} records {'published to' if done.new else 'was there already:'} {done.place}; it continues {done.continued} earlier ones"
    )
    render.text(f"next: memtrial verify {folder.name} --checkpoint FILE")
    return 0

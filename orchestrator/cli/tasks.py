"""Lists the tasks, or shows one: prompt, timeline and tests, without its answer key."""

from __future__ import annotations

import argparse

from orchestrator.cli import render
from orchestrator.core.printable import printable
from orchestrator.core.words import counted


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    parser.add_argument("task", metavar="TASK", nargs="?", help="show this task")


def run(arguments: argparse.Namespace) -> int:
    """Prints the list or one task."""
    from orchestrator.core.places import fixtures_root
    from orchestrator.sources.loader import list_tasks, load_task

    fixtures = fixtures_root()
    names = [arguments.task] if arguments.task else list(list_tasks(fixtures))
    tasks = [load_task(fixtures, name) for name in names]
    if arguments.json:
        render.document(
            [
                {
                    **t.card.model_dump(mode="json"),
                    "prompt": t.brief.prompt,
                    "episodes": len(t.history.episodes),
                }
                for t in tasks
            ]
        )
        return 0
    for task in tasks:
        card = task.card
        tests = {
            group: sum(test.group == group for test in task.key.card.fail_to_pass)
            for group in ("capability", "memory")
        }
        render.row(
            f"{card.id:<32} {card.category.value:<26} {card.source:<18} {counted(len(task.history.episodes), 'episode')}, F2P {tests['capability']}+{tests['memory']}, P2P {len(task.key.pass_to_pass)}"
        )
        if arguments.task:
            render.row(
                f"\n{task.brief.prompt}\n\nMay change: {', '.join(task.brief.allowed_paths)}\n"
            )
            for episode in task.history.episodes:
                render.row(
                    f"  {episode.episode_id} {episode.started_at} {counted(len(episode.events), 'event')}: {printable(episode.events[0].text, limit=90)}"
                )
    render.text(
        f"next: memtrial {'plan --agent oracle --task ' + names[0] + ' --out plan.json' if arguments.task else 'tasks ' + names[0]}"
    )
    return 0

"""Lists, shows, validates, writes and imports tasks: `memtrial tasks [show|validate|pin|new|checkout|import]`.

Without a word it lists them. `--pack DIR` takes tasks from a pack outside the repository.
"""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path

from orchestrator.cli import render
from orchestrator.cli.arguments import WordParser
from orchestrator.core.words import counted

WORDS = {
    "list": "list the tasks (also without a word)",
    "show": "show one task as a person reads it",
    "validate": "check that tasks measure memory",
    "pin": "measure the base suite of a task and write its pins",
    "new": "scaffold a task",
    "checkout": "write a task's checkout into a folder, to make patches in",
    "import": "turn tasks of another benchmark into task folders",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the words, each with its own options."""
    parser.set_defaults(word="list", pack=None)
    words = parser.add_subparsers(
        dest="word", metavar="WORD", required=False, parser_class=WordParser
    )
    for word, text in WORDS.items():
        below = words.add_parser(word, help=text, description=text)
        below.add_argument(
            "--pack",
            type=Path,
            default=argparse.SUPPRESS,
            metavar="DIR",
            help="a pack outside the repository",
        )
        if word != "list":
            importlib.import_module(f"orchestrator.cli.tasks_{word}").configure(below)


def run(arguments: argparse.Namespace) -> int:
    """Runs the word, or lists."""
    if arguments.word not in {None, "list"}:
        module = importlib.import_module(f"orchestrator.cli.tasks_{arguments.word}")
        result: int = module.run(arguments)
        return result
    return _list(arguments)


def fixtures_of(arguments: argparse.Namespace) -> Path:
    """Returns the folder that tasks are taken from: a pack's, or the repository's."""
    from orchestrator.core.places import fixtures_root

    return Path(arguments.pack).resolve() if arguments.pack else fixtures_root()


def again(arguments: argparse.Namespace, word: str, *words: str) -> str:
    """Returns a command of this verb over the same pack."""
    pack = ("--pack", str(arguments.pack)) if arguments.pack else ()
    return " ".join(("memtrial tasks", word, *words, *pack))


def _list(arguments: argparse.Namespace) -> int:
    from orchestrator.sources.loader import list_tasks, load_task

    fixtures = fixtures_of(arguments)
    tasks = [load_task(fixtures, name) for name in list_tasks(fixtures)]
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
            f"{card.id:<32} {card.category.value:<26} {card.language:<10} {card.source:<18} {counted(len(task.history.episodes), 'episode')}, F2P {tests['capability']}+{tests['memory']}, P2P {len(task.key.pass_to_pass)}"
        )
    first = tasks[0].card.id if tasks else "--help"
    render.text(f"next: memtrial tasks {'show ' + first if tasks else 'new --help'}")
    return 0

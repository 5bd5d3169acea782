"""Keeps a MEMORY.md by hand, episode by episode, under a clock and a character cap; the task is not shown.

TASK names whose timeline is read; nothing else of it is opened. A task's name can tell what it is about: hand
a curator the timeline alone, under another name (`--history t.json --out mine`). A sitting can be stopped (s, Ctrl-C) and
goes on where it was. Without --out it lies in results/curation/TASK. `--install` puts the finished file where
plans find it; `--import LOG` takes over a log of the same protocol that another tool wrote.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.cli import render
from orchestrator.core.errors import Incomplete, UsageError

if TYPE_CHECKING:
    from orchestrator.model.task import History

MINUTES, CHARACTERS = 3.0, 2000


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    parser.add_argument("task", metavar="TASK", nargs="?", help="whose timeline is curated")
    parser.add_argument("--pack", type=Path, metavar="DIR", help="a pack outside the repository")
    parser.add_argument(
        "--history",
        type=Path,
        metavar="FILE",
        help="a timeline alone, for a curator without the pack",
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="where the sitting is kept")
    parser.add_argument(
        "--minutes", type=float, default=MINUTES, help=f"for each episode (default {MINUTES:g})"
    )
    parser.add_argument(
        "--max-chars", type=int, default=CHARACTERS, help=f"of the file (default {CHARACTERS})"
    )
    parser.add_argument("--status", action="store_true", help="say how far the sitting is")
    parser.add_argument(
        "--install", action="store_true", help="put the finished file into the pack's curated/"
    )
    parser.add_argument(
        "--import", dest="imported", type=Path, metavar="LOG", help="a curator log of remem"
    )
    parser.add_argument(
        "--file", type=Path, metavar="MEMORY.md", help="the file that an imported log closed"
    )


def run(arguments: argparse.Namespace) -> int:
    """Sits down with the person, or does what another option says."""
    if arguments.imported is not None:
        return _import(arguments)
    history = _history(arguments)
    folder = _folder(arguments, history)
    if arguments.install:
        return _install(arguments, history, folder)
    if arguments.status:
        return _status(arguments, history, folder)
    return _sit(arguments, history, folder)


def _fixtures(arguments: argparse.Namespace) -> Path:
    from orchestrator.core.places import fixtures_root

    return Path(arguments.pack).resolve() if arguments.pack else fixtures_root()


def _history(arguments: argparse.Namespace) -> History:
    from orchestrator.model.task import History
    from orchestrator.sources.loader import load_history

    if arguments.history is not None:
        return History.parse(_read(arguments.history), where=arguments.history.name)
    if arguments.task is None:
        raise UsageError(
            "task-missing",
            "expected a TASK or --history FILE, found neither",
            hint="`memtrial tasks` lists the tasks",
        )
    return load_history(_fixtures(arguments), arguments.task)


def _read(path: Path) -> bytes:
    from orchestrator.pipeline.curation import MAX_FILE_BYTES

    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(
            "file-missing",
            f"expected a file at {path}, found {error.strerror}",
            hint="check the path",
        ) from error
    if len(data) > 16 * MAX_FILE_BYTES:
        raise UsageError(
            "file-too-large",
            f"expected at most {16 * MAX_FILE_BYTES} bytes in {path}, found {len(data)}",
            hint="check the path",
        )
    return data


def _folder(arguments: argparse.Namespace, history: History) -> Path:
    from orchestrator.core.places import results_root

    return Path(arguments.out or results_root() / "curation" / history.task_id)


def _sit(arguments: argparse.Namespace, history: History, folder: Path) -> int:
    from orchestrator.cli.desk import Terminal
    from orchestrator.core.files import require_writable
    from orchestrator.model.curation import CurationBudget
    from orchestrator.pipeline.curation import Sitting, described, read_sitting

    if not 0 < arguments.minutes <= 600 or arguments.max_chars < 1:
        raise UsageError(
            "curation-budget-invalid",
            f"expected 0 < --minutes <= 600 and --max-chars of at least 1, found {arguments.minutes:g} and {arguments.max_chars}",
            hint=f"the pack's files have {MINUTES:g} and {CHARACTERS}",
        )
    require_writable(folder, "the curator's sitting")
    budget = CurationBudget(minutes_per_episode=arguments.minutes, max_chars=arguments.max_chars)
    desk = Terminal(render.note if arguments.json else render.text)
    log = Sitting(folder, history, budget, desk).run()
    state = read_sitting(folder)
    if log is None or state is None:
        told = described(state, len(history.episodes)) if state else "nothing closed yet"
        raise Incomplete(
            "curation-incomplete",
            f"expected all {len(history.episodes)} episodes closed, found {told}",
            hint="`memtrial curate` with the same options goes on here",
        )
    if arguments.json:
        render.document(log.model_dump(mode="json"))
        return 0
    render.text(described(state, len(history.episodes)))
    render.text(f"next: memtrial curate {_again(arguments, history)} --install")
    return 0


def _again(arguments: argparse.Namespace, history: History) -> str:
    options = [("--pack", arguments.pack), ("--out", arguments.out)]
    return " ".join([history.task_id, *(f"{name} {value}" for name, value in options if value)])


def _status(arguments: argparse.Namespace, history: History, folder: Path) -> int:
    from orchestrator.pipeline.curation import closed_text, described, read_sitting

    state = read_sitting(folder)
    if state is None:
        raise UsageError(
            "curation-unknown",
            f"expected a sitting in {folder}, found none",
            hint=f"begin one: `memtrial curate {_again(arguments, history)}`",
        )
    closed_text(folder, state)
    if arguments.json:
        render.document(state.model_dump(mode="json"))
        return 0
    render.text(described(state, len(history.episodes)))
    done = len(state.steps) == len(history.episodes)
    render.text(f"next: memtrial curate {_again(arguments, history)}{' --install' if done else ''}")
    return 0


def _install(arguments: argparse.Namespace, history: History, folder: Path) -> int:
    from orchestrator.core.files import write_atomic
    from orchestrator.pipeline.curation import FILE, LOG
    from orchestrator.sources.loader import check_curated

    found = check_curated(folder, history)
    into = _fixtures(arguments) / "curated" / history.task_id
    write_atomic(into / FILE, found.text.encode())
    write_atomic(into / LOG, found.log.canonical() + b"\n")
    if arguments.json:
        render.document({"task": history.task_id, "folder": str(into)})
        return 0
    render.text(f"installed: {into}")
    render.text(f"next: memtrial plan --task {history.task_id} --out plan.json")
    return 0


def _import(arguments: argparse.Namespace) -> int:
    from orchestrator.pipeline.authoring.curatorlog import RememCuratorLog, convert

    log = RememCuratorLog.parse(_read(arguments.imported), where=arguments.imported.name)
    if arguments.file is None:
        if arguments.json:
            render.document(log.model_dump(mode="json"))
            return 0
        render.text(
            f"{log.task_id}: {len(log.sessions)} sessions, {log.totals.maintenance_minutes:g} minutes, {log.final_char_count} characters; the log agrees with itself"
        )
        render.text(
            f"next: memtrial curate {log.task_id} --import {arguments.imported} --file MEMORY.md"
        )
        return 0
    history = _history(arguments)
    folder = _folder(arguments, history)
    made = convert(log, history, _read(arguments.file), folder)
    if arguments.json:
        render.document(made.model_dump(mode="json"))
        return 0
    render.text(f"imported: {folder}")
    render.text(f"next: memtrial curate {_again(arguments, history)} --install")
    return 0

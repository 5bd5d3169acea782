"""Parses the command line, calls one verb, turns its outcome into an exit code.

Imports argparse and nothing heavy: `memtrial --help` loads no SDK. The third of the three places that
may catch everything: an unknown error is a bug (exit 70), never a silent end.
"""

from __future__ import annotations

import argparse
import difflib
import errno
import importlib
import shlex
import sys
import traceback
from collections.abc import Sequence

from orchestrator import __version__
from orchestrator.cli import render
from orchestrator.cli.arguments import Parser
from orchestrator.core.errors import Cancelled, EnvironmentMissing, MemtrialError, UsageError

# verb -> (help, shown by --help). The module orchestrator.cli.<verb> holds `configure` and `run`.
VERBS: dict[str, tuple[str, bool]] = {
    "doctor": ("say what is missing on this machine, and the command that mends it", True),
    "smoke": ("run the whole main job offline: engine, images, plan, trials, report", True),
    "plan": ("fix what will run, byte for byte", True),
    "run": ("run a plan", True),
    "resume": ("go on with a run that stopped", True),
    "report": ("rebuild the report of a run from its record", True),
    "verify": ("check a run's evidence, offline, and recompute what it shows", True),
    "tasks": ("list, show, validate, write or import tasks", True),
    "memory": ("try one memory system on one history, by hand", True),
    "curate": ("keep a MEMORY.md by hand, episode by episode, under a clock", False),
    "pack": ("prove that every task of the pack measures memory, with scripted agents", False),
    "clean": ("remove what dead runs left in the engine", False),
    "audit": ("write one page for a security reviewer: who signed what, what was checked", False),
    "export": ("write a run's evidence as one archive", False),
    "approve": ("say what a live run may spend and do, and sign it", False),
    "gate": ("check whether an approved plan could be dispatched; starts nothing", False),
    "official": (
        "dispatch an approved run of phase smoke or official, or say what it lacks",
        False,
    ),
    "supervisor": ("answer the gate and dispatch approved runs, under a user of its own", False),
    "trust": ("make, change or show the trust root of approvals", False),
    "seal": ("sign a run's evidence again, with another key or with sigstore bundles", False),
    "checkpoint": ("keep a run's signed checkpoint elsewhere", False),
    "deps": ("check the installed distributions against the lock and their provenance", False),
    "agents": (
        "list agents, check one, or have packaged ones solve a task (scripted model)",
        False,
    ),
    "attack": ("run hostile agents against this installation: none may succeed", False),
    "list": ("list tasks, conditions or sources", False),
    "sources": ("fetch every pinned source, or move the verified cache", False),
    "engine": ("reach a Docker engine, or install and start one", False),
    "replay": ("play a recorded run again, offline, and say where it diverged", False),
    "gateway": ("serve a scripted or recorded model to any client", False),
    "images": ("make the images that are missing", False),
    "schemas": ("write or check the published JSON Schemas", False),
}


def build_parser(*, everything: bool) -> argparse.ArgumentParser:
    """Builds the top parser; each verb's own options are added when the verb is chosen."""
    lines = [f"  {verb:<10} {text}" for verb, (text, shown) in VERBS.items() if shown or everything]
    parser = argparse.ArgumentParser(
        prog="memtrial",
        description="Controlled trials of memory for coding agents.",
        epilog="verbs:\n"
        + "\n".join(lines)
        + "\n\nStart with `memtrial smoke`. `memtrial VERB --help` explains a verb.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="memtrial [--version] [--help] [--help-all] VERB ...",
        add_help=False,
    )
    parser.add_argument("--version", action="store_true", help="show the version")
    parser.add_argument("-h", "--help", action="store_true", help="show this text")
    parser.add_argument("--help-all", action="store_true", help="show every verb")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    as_json = "--json" in words
    try:
        return _call(words[0], words[1:]) if words else _help(words)
    except BrokenPipeError:
        # The reader of our output is gone; there is nobody to tell.
        render.give_up_output()
        return 0
    except KeyboardInterrupt:
        return _refuse(_interrupted(words), as_json=as_json)
    except MemtrialError as error:
        return _refuse(error, as_json=as_json)
    except Exception as error:  # noqa: BLE001 - one of the named places
        known = fault_of_machine(error)
        if known is not None:
            return _refuse(known, as_json=as_json)
        render.note(traceback.format_exc())
        render.note(
            f"This is a bug in memtrial {__version__}: {type(error).__name__}: {error}. Please report it with the lines above."
        )
        return 70


def _refuse(error: MemtrialError, *, as_json: bool) -> int:
    try:
        render.failure(error, as_json=as_json)
    except MemtrialError as worse:
        # Not even the error could be printed as a document.
        render.failure(worse, as_json=False)
        return worse.exit_code
    return error.exit_code


def _interrupted(words: list[str]) -> MemtrialError:
    return Cancelled(
        "interrupted",
        "interrupted while no run was under way",
        hint=f"run `memtrial {shlex.join(words)}` again",
    )


def fault_of_machine(error: Exception) -> MemtrialError | None:
    """Returns what an error of the operating system means for the user; None for any other error.

    The system's own errors have a number; an engine's or an index's, which are derived from them, do not.
    """
    if not isinstance(error, OSError) or error.errno is None:
        return None
    found = f"{error.strerror or error}" + (f": {error.filename}" if error.filename else "")
    if error.errno == errno.ENAMETOOLONG:
        return UsageError(
            "path-too-long", f"expected a usable path, found {found[:300]}", hint="shorten the path"
        )
    return EnvironmentMissing(
        "system-refused",
        f"expected the system to allow what memtrial does with files, found {found}",
        hint="mend what it says (space, permissions, path), or run `memtrial doctor`",
    )


def _help(words: list[str]) -> int:
    shown = build_parser(everything="--help-all" in words).format_help().rstrip()
    render.text(f"memtrial {__version__}" if words[:1] == ["--version"] else shown)
    return 0


def _call(verb: str, words: list[str]) -> int:
    if verb in {"-h", "--help", "--help-all", "--version"}:
        return _help([verb, *words])
    if verb not in VERBS:
        close = difflib.get_close_matches(verb, VERBS, n=1)
        raise UsageError(
            "verb-unknown",
            f"expected a verb, found {verb!r}",
            hint=f"did you mean `memtrial {close[0]}`?" if close else "see `memtrial --help`",
        )
    module = importlib.import_module(f"orchestrator.cli.{verb}")
    parser = Parser(verb, module.__doc__ or "")
    module.configure(parser)
    try:
        arguments = parser.parse_args(words)
    except SystemExit as stop:
        return int(stop.code or 0)
    arguments.words = words
    result: int = module.run(arguments)
    return result

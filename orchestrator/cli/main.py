"""Parses the command line, calls one verb, turns its outcome into an exit code.

Imports argparse and nothing heavy: `memtrial --help` loads no SDK. The third of the three places that
may catch everything: an unknown error is a bug (exit 70), never a silent end.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import os
import sys
import traceback
from collections.abc import Sequence

from orchestrator import __version__
from orchestrator.cli import render
from orchestrator.core.errors import MemtrialError

# verb -> (help, shown by --help). The module orchestrator.cli.<verb> holds `configure` and `run`.
VERBS: dict[str, tuple[str, bool]] = {
    "doctor": ("say what is missing on this machine, and the command that mends it", True),
    "smoke": ("run the whole main job offline: engine, images, plan, trials, report", True),
    "plan": ("fix what will run, byte for byte", True),
    "run": ("run a plan", True),
    "resume": ("go on with a run that stopped", True),
    "report": ("rebuild the report of a run from its record", True),
    "tasks": ("list the tasks, or show one", True),
    "clean": ("remove what dead runs left in the engine", True),
    "attack": ("run hostile agents against this installation: none may succeed", False),
    "engine": ("reach a Docker engine, or install and start one", False),
    "images": ("make the images that are missing", False),
    "schemas": ("write or check the published JSON Schemas", False),
}


def build_parser(*, everything: bool) -> argparse.ArgumentParser:
    """Builds the top parser; each verb's own options are added when the verb is chosen."""
    lines = [f"  {verb:<9} {text}" for verb, (text, shown) in VERBS.items() if shown or everything]
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
    if not words or words[0] in {"-h", "--help", "--help-all", "--version"}:
        shown = build_parser(everything="--help-all" in words).format_help().rstrip()
        render.text(f"memtrial {__version__}" if words[:1] == ["--version"] else shown)
        return 0
    as_json = "--json" in words
    try:
        return _call(words[0], words[1:])
    except MemtrialError as error:
        render.failure(error, as_json=as_json)
        return error.exit_code
    except KeyboardInterrupt:
        render.note(
            "Interrupted. What was recorded is kept; `memtrial resume latest` continues a run."
        )
        return 130
    except BrokenPipeError:
        # The reader of our output is gone; there is nobody to tell. Keeps the interpreter's own flush quiet.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:  # noqa: BLE001 - the last of the three named places
        render.note(traceback.format_exc())
        render.note(
            f"This is a bug in memtrial {__version__}: {type(error).__name__}: {error}. Please report it with the lines above."
        )
        return 70


def _call(verb: str, words: list[str]) -> int:
    if verb not in VERBS:
        close = difflib.get_close_matches(verb, VERBS, n=1)
        hint = f"did you mean `memtrial {close[0]}`?" if close else "see `memtrial --help`"
        render.note(f"memtrial: no verb {verb!r}; {hint}")
        return 2
    module = importlib.import_module(f"orchestrator.cli.{verb}")
    parser = argparse.ArgumentParser(
        prog=f"memtrial {verb}",
        description=module.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--json", action="store_true", help="print one JSON document instead of text"
    )
    module.configure(parser)
    try:
        arguments = parser.parse_args(words)
    except SystemExit as stop:
        return int(stop.code or 0)
    result: int = module.run(arguments)
    return result

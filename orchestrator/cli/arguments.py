"""Parses a verb's options; what is wrong with them is an error like any other.

argparse prints its own errors and ends the process: here they become `UsageError`, with what was expected
and found, the next step, and the JSON form. Imports nothing heavy.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, NoReturn

from orchestrator.cli import render
from orchestrator.core.errors import UsageError


class Parser(argparse.ArgumentParser):
    """The parser of one verb."""

    def __init__(self, verb: str, description: str) -> None:
        super().__init__(
            prog=f"memtrial {verb}",
            description=description,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        self._verb = verb
        self.register("type", int, _whole_number)
        self.add_argument(
            "--json", action="store_true", help="print one JSON document instead of text"
        )

    def error(self, message: str) -> NoReturn:
        """Raises instead of ending the process."""
        told = message if "expected" in message else f"expected other arguments, found: {message}"
        raise UsageError("arguments-invalid", told, hint=f"see `memtrial {self._verb} --help`")

    def print_help(self, file: object = None) -> None:
        """Prints the help like every other text."""
        render.text(self.format_help().rstrip())


class WordParser(Parser):
    """The parser of a word of a verb: refuses, helps and takes --json as those of verbs do."""

    def __init__(self, *, prog: str, description: str) -> None:
        super().__init__(prog.removeprefix("memtrial "), description)
        for action in self._actions:
            if action.dest == "json":
                # Where it is not given here, it may have been given before the word.
                action.default = argparse.SUPPRESS


def _whole_number(text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"expected a whole number, found {text[:40]!r}") from error


def one_of(*known: str) -> Callable[[str], str]:
    """Returns the type of an option with few values; used instead of `choices` for its error text."""

    def choose(text: str) -> str:
        if text not in known:
            raise argparse.ArgumentTypeError(f"expected one of {', '.join(known)}, found {text!r}")
        return text

    return choose


def whole(least: int, most: int) -> Callable[[str], int]:
    """Returns the type of an option with a whole number from `least` to `most`."""

    def check(text: str) -> int:
        number = _whole_number(text)
        if not least <= number <= most:
            raise argparse.ArgumentTypeError(
                f"expected a whole number from {least:,} to {most:,}, found {text[:40]!r}"
            )
        return number

    return check


def fitting(rule: Callable[[], Any], form: str) -> Callable[[str], str]:
    """Returns the type of an option whose text goes into a document.

    Args:
        rule: gives the document's own type for the text; called when there is a text, for loading it is slow.
        form: what fits, for the error text.
    """

    def check(text: str) -> str:
        from pydantic import TypeAdapter, ValidationError

        try:
            return str(TypeAdapter(rule()).validate_python(text))
        except ValidationError as error:
            raise argparse.ArgumentTypeError(f"expected {form}, found {text[:80]!r}") from error

    return check

"""The option of `plan` for caps on model spending: one for each level, in dollars, equal in every arm."""

from __future__ import annotations

import argparse
import re

from orchestrator.core.errors import UsageError
from orchestrator.pipeline.options import LEVELS, CapLevel

_AMOUNT = re.compile(r"([0-9]{1,9})(?:\.([0-9]{1,6}))?")


def add_caps(parser: argparse.ArgumentParser) -> None:
    """Adds the option."""
    parser.add_argument(
        "--cap",
        action="append",
        default=[],
        metavar="LEVEL=USD",
        help="the most that models may cost per call, trial, condition or run, such as trial=2.50 (repeatable, part of the plan)",
    )


def caps_from(given: list[str]) -> tuple[tuple[CapLevel, int], ...]:
    """Returns the caps by level in micro-USD, in the order of levels.

    Raises:
        UsageError: an unknown level, a level twice, or no amount.
    """
    found: dict[CapLevel, int] = {}
    for text in given:
        name, _, amount = text.partition("=")
        level = next((level for level in LEVELS if level == name), None)
        if level is None:
            raise _refuse(text, f"a level ({', '.join(LEVELS)}), = and an amount in dollars")
        if level in found:
            raise _refuse(text, f"each of {', '.join(LEVELS)} at most once")
        match = _AMOUNT.fullmatch(amount)
        if match is None:
            raise _refuse(text, "an amount in dollars with at most six decimals")
        found[level] = int(match[1]) * 1_000_000 + int((match[2] or "").ljust(6, "0"))
    return tuple((level, found[level]) for level in LEVELS if level in found)


def _refuse(text: str, expected: str) -> UsageError:
    return UsageError(
        "cap-invalid",
        f"--cap: expected {expected}, found {text[:100]!r}",
        hint="write it like --cap trial=2.50 --cap run=100",
    )

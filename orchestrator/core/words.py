"""Small grammar for texts: a number with its noun. Pure."""

from __future__ import annotations


def counted(number: int, noun: str, plural: str = "") -> str:
    """Returns `1 trial`, `2 trials`; the plural is given where it is not noun + s."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"

"""The arm without memory: no store, no items."""

from __future__ import annotations

from pathlib import Path

from orchestrator.memory.builtin import BuiltinMemory
from orchestrator.memory.supplies import Supplies


class NoMemoryAdapter(BuiltinMemory):
    """Remembers nothing."""

    name = "none"
    information = "none"


class EmptyAdapter(BuiltinMemory):
    """A store in which nothing is ever put: what an agent with memory tools finds without memory."""

    name = "empty"
    information = "none"

    def reopen(self, workdir: Path) -> None:
        """Has nothing to open."""


def make(name: str, supplies: Supplies) -> BuiltinMemory:
    """Makes the arm without memory, or the one with an empty store."""
    return (NoMemoryAdapter if name == "none" else EmptyAdapter)(supplies.counter)

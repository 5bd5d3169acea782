"""The contract kit over a program, in the container that a trial gives it: name the arm's file and id, run pytest.

Needs an engine (`memtrial engine`); the first run makes the image.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from orchestrator.core.errors import unknown_name
from orchestrator.core.places import fixtures_root
from orchestrator.memory.life import Limits
from orchestrator.memory.tokens import TokenCounter
from orchestrator.pipeline.byhand import start_here
from orchestrator.pipeline.memory import adapter_of
from orchestrator.protocols import MemoryAdapter, OpenBox
from orchestrator.sources.loader import load_conditions
from orchestrator.testing.memory import MemoryContract


class ProgramContract(MemoryContract):
    """What every memory system must hold, for one that is a program; give both names in a subclass."""

    limits = Limits(step_s=60.0, settle_s=60)
    own_channels = ("docker.sock",)
    conditions: Path
    """The file with the arm, as MEMTRIAL_CONDITIONS names it; the program's folder is beside it."""
    condition: str
    """The arm's id."""

    def make_adapter(self) -> MemoryAdapter:
        """Makes a fresh system."""
        return program_adapter(self.conditions, self.condition)


def program_adapter(conditions: Path, condition: str) -> MemoryAdapter:
    """Returns what speaks with the program of an arm, in containers as in a trial.

    Args:
        conditions: the file with the arm.
        condition: the arm's id.

    Raises:
        UsageError: the file has no such arm.
        DocumentError: the file or the program's folder is malformed.
        IntegrityError: the program is not what the arm's pin is over.
        EnvironmentMissing: no engine answers.
    """
    with _named(conditions):
        known = {arm.id: arm for arm in load_conditions(fixtures_root()).conditions}
        if condition not in known:
            raise unknown_name("condition", condition, known, option="condition")
        return adapter_of(known[condition], None, TokenCounter(), _start())()


@cache
def _start() -> OpenBox:
    """Returns what starts programs: one client of the engine for all tests."""
    return start_here()


@contextmanager
def _named(conditions: Path) -> Iterator[None]:
    """Names a file of conditions as a user does, inside the block."""
    before = os.environ.get("MEMTRIAL_CONDITIONS")
    os.environ["MEMTRIAL_CONDITIONS"] = str(conditions.absolute())
    try:
        yield
    finally:
        if before is None:
            del os.environ["MEMTRIAL_CONDITIONS"]
        else:
            os.environ["MEMTRIAL_CONDITIONS"] = before

"""What a built-in memory system is made with. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from orchestrator.memory.tokens import TokenCounter
from orchestrator.model.review import ReviewLog
from orchestrator.protocols import MemoryAdapter, MemoryPlace, ModelAsker


@dataclass(frozen=True, slots=True)
class Supplies:
    """What a built-in system is made with. `curated` is the task's file, `inner` makes the system below.

    `review` holds a person's answers on what the system will hold back. `asks` makes what asks a model from the place that a system is opened in; it may refuse to.
    """

    counter: TokenCounter
    curated: str | None = None
    review: ReviewLog | None = None
    variant: str | None = None
    inner: Callable[[], MemoryAdapter] | None = None
    asks: Callable[[MemoryPlace], ModelAsker] | None = None

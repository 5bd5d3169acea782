"""The arm without memory: no store, no items."""

from __future__ import annotations

from orchestrator.model.condition import Condition
from orchestrator.model.memory import Remembered
from orchestrator.model.task import History


class NoMemoryAdapter:
    """Remembers nothing."""

    def remember(self, condition: Condition, history: History, query: str) -> Remembered:
        """Returns an empty memory."""
        return Remembered(
            condition_id=condition.id,
            adapter="none",
            captured_events=0,
            store_sha256=None,
            items=(),
        )

"""From a task's history to what a memory system is handed: sessions, in order, and nothing else. Pure.

The name of the task does not cross: it says what the agent will be asked. The clock is the history's own.
"""

from __future__ import annotations

from orchestrator.model.lifecycle import Session
from orchestrator.model.task import History

PROJECT = "project"
"""The scope of a task's history: one project, by a name that tells nothing."""


def sessions_of(history: History) -> tuple[Session, ...]:
    """Returns the sessions of a history in chronological order."""
    return tuple(
        Session(
            session_id=episode.episode_id,
            scope=PROJECT,
            started_at=episode.started_at,
            events=episode.events,
        )
        for episode in history.episodes
    )


class HistoryClock:
    """The time of the latest event that was handed over."""

    def __init__(self, start: str) -> None:
        self._now = start

    def now(self) -> str:
        """Returns it as RFC 3339 text in UTC."""
        return self._now

    def reach(self, at: str) -> None:
        """Moves on; never back."""
        self._now = max(self._now, at)

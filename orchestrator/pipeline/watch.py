"""What the pipeline tells a display while it works: which trial is at which stage. Holds no state."""

from __future__ import annotations

from typing import Protocol


class Watch(Protocol):
    """Somebody who looks on. Called from worker threads; must not raise and must not wait."""

    def say(self, value: str, /) -> None:
        """Something happened that is worth a line that stays."""

    def stage(self, trial: str, stage: str, /) -> None:
        """A trial began a stage."""

    def ended(self, trial: str, /) -> None:
        """A trial no longer runs."""

    def close(self) -> None:
        """Takes all live lines away, for good."""

"""What capture kept of the events that a fact rests on: which of them, and how much of each. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from orchestrator.model.lifecycle import CaptureReports
from orchestrator.model.task import Event, GoldFact, History
from orchestrator.scoring.matching import holds


@dataclass(frozen=True, slots=True)
class Captured:
    """What the events of a history say, and which of them were captured.

    `said`: all that each event says, its time and speaker included. `cut`: of each captured event, how many
    characters of its end were cut off.
    """

    said: Mapping[str, str]
    cut: Mapping[str, int]

    def of(self, fact: GoldFact) -> tuple[str, ...]:
        """Returns the events of a fact that were captured, wholly or in part."""
        return tuple(event for event in fact.supporting_event_ids if event in self.cut)

    def survived(self, fact: GoldFact) -> bool:
        """Whether what was captured still holds the fact, as far as all its events did."""
        kept = [self._kept(event) for event in self.of(fact)]
        whole = "\n".join(self.said[event] for event in fact.supporting_event_ids)
        if not holds(fact, whole):
            # The matchers are made for the statement, not for these events: any of them counts.
            return bool(kept)
        return holds(fact, "\n".join(kept))

    def _kept(self, event: str) -> str:
        said = self.said[event].rstrip()
        return said[: max(0, len(said) - self.cut[event])]


def captured_of(history: History, captures: CaptureReports | None) -> Captured:
    """Reads the reports of a history's capture; None where a life did not get that far."""
    reports = captures.reports if captures else ()
    return Captured(
        said={e.event_id: _said(e) for episode in history.episodes for e in episode.events},
        cut={
            event.event_id: event.cut_characters
            for report in reports
            for event in report.events
            if event.outcome == "captured"
        },
    )


def _said(event: Event) -> str:
    call = f"{event.tool.name} {event.tool.input}\n" if event.tool else ""
    return f"{event.at} {event.role}: {call}{event.text}"

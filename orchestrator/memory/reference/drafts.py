"""What passes between capture, extraction and policy inside the reference store. Pure values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from orchestrator.model.lifecycle import MemoryKind

CONTESTED: Final = "contested"
TENTATIVE: Final = "tentative"
PARTIAL: Final = "partial"


@dataclass(frozen=True, slots=True)
class Utterance:
    """One captured event as extraction sees it: redacted text, and how a tool's call ended."""

    event_id: str
    at: str
    role: str
    tool: str | None
    exit_code: int | None
    text: str
    labels: tuple[str, ...] = ()

    @property
    def failed(self) -> bool:
        """Whether this is a tool call that ended badly."""
        return self.exit_code not in {None, 0}


@dataclass(frozen=True, slots=True)
class Draft:
    """A proposal to remember something, with the events that it rests on.

    `reply` is what the other side said to it; it is part of the text when it says more than the statement.
    """

    kind: MemoryKind
    text: str
    evidence: tuple[str, ...]
    reason: str | None = None
    rejected: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    cues: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    confidence_milli: int = 500


@dataclass(frozen=True, slots=True)
class Extraction:
    """What one extraction task gave: drafts, and which model was asked what, if one was."""

    drafts: tuple[Draft, ...]
    prompt_sha256: str | None = None
    model: str | None = None
    tokens: int | None = None


class Extractor(Protocol):
    """Turns the captured events of one session into drafts."""

    @property
    def name(self) -> str:
        """What it is and its version: `heuristic-1`, or `llm-1:` and the model."""

    def extract(self, session_id: str, events: tuple[Utterance, ...]) -> Extraction:
        """Reads one session.

        Raises:
            MemtrialError: the task failed and may be tried again.
        """

    def close(self) -> None:
        """Lets go of what it holds."""

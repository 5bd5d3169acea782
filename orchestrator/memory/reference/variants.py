"""The variants of the reference pipeline: whole, and the ablations that the registry of conditions names.

Each takes away one thing, so that the difference to the whole is what that thing is worth.
"""

from __future__ import annotations

from typing import Final

from orchestrator.core.errors import DocumentError
from orchestrator.memory.reference.adapter import ReferenceAdapter
from orchestrator.memory.reference.drafts import Draft, Extraction, Utterance
from orchestrator.memory.reference.extract import MAX_TEXT_CHARS
from orchestrator.memory.reference.injection import INSTRUCTION_LIKE
from orchestrator.memory.reference.text import files
from orchestrator.memory.reference.vectors import installed_embedder
from orchestrator.memory.supplies import Supplies

VERBATIM: Final = "verbatim-1"
VARIANTS: Final = ("fts_only", "no_enrichment")


class VerbatimExtractor:
    """Takes every captured event as it is: what is left of the pipeline without extraction."""

    @property
    def name(self) -> str:
        """Its name and version."""
        return VERBATIM

    def extract(self, session_id: str, events: tuple[Utterance, ...]) -> Extraction:
        """Proposes each event; never fails."""
        del session_id
        return Extraction(
            tuple(
                Draft(
                    kind="event",
                    text=f"{event.role}: {event.text}"[:MAX_TEXT_CHARS],
                    evidence=(event.event_id,),
                    files=files(event.text),
                    labels=tuple(label for label in event.labels if label == INSTRUCTION_LIKE),
                )
                for event in events
            )
        )


def variant_of(name: str, supplies: Supplies) -> ReferenceAdapter:
    """Makes the pipeline of a variant; without one, the whole.

    Raises:
        DocumentError: there is no such variant.
    """
    embedder = installed_embedder()
    if supplies.variant is None:
        return ReferenceAdapter(supplies.counter, embedder=embedder)
    if supplies.variant == "fts_only":
        return ReferenceAdapter(supplies.counter, embedder=None, channels=("fts",))
    if supplies.variant == "no_enrichment":
        return ReferenceAdapter(
            supplies.counter, embedder=embedder, extractor_for=lambda _: VerbatimExtractor()
        )
    raise DocumentError(
        "variant-unknown",
        f"adapter {name}: expected one of {', '.join(VARIANTS)} or none, found {supplies.variant!r}",
        hint="mend the condition in fixtures/conditions.json",
    )

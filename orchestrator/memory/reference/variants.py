"""The variants of the reference pipeline: whole, the ablations of the registry, and a model as extractor.

An ablation takes away one thing, so that the difference to the whole is what that thing is worth.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from orchestrator.core.errors import DocumentError, EnvironmentMissing
from orchestrator.memory.reference.adapter import ReferenceAdapter
from orchestrator.memory.reference.drafts import Draft, Extraction, Utterance
from orchestrator.memory.reference.extract import MAX_TEXT_CHARS
from orchestrator.memory.reference.injection import INSTRUCTION_LIKE
from orchestrator.memory.reference.llm import NAME as MODEL
from orchestrator.memory.reference.llm import ModelExtractor
from orchestrator.memory.reference.text import files
from orchestrator.memory.reference.vectors import installed_embedder
from orchestrator.memory.supplies import Supplies
from orchestrator.protocols import MemoryPlace

VERBATIM: Final = "verbatim-1"
VARIANTS: Final = ("fts_only", "no_enrichment", "model_extraction")


class VerbatimExtractor:
    """Takes every captured event as it is: what is left of the pipeline without extraction."""

    @property
    def name(self) -> str:
        """Its name and version."""
        return VERBATIM

    def close(self) -> None:
        """Holds nothing."""

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
    make = partial(ReferenceAdapter, supplies.counter, review=supplies.review)
    if supplies.variant is None:
        return make(embedder=embedder)
    if supplies.variant == "fts_only":
        return make(embedder=None, channels=("fts",))
    if supplies.variant == "no_enrichment":
        return make(
            embedder=embedder,
            extractor=VERBATIM,
            extractor_for=lambda _: VerbatimExtractor(),
        )
    if supplies.variant == "model_extraction":
        return make(
            embedder=embedder,
            extractor=MODEL,
            extractor_for=lambda place: _model_extractor(supplies, place),
        )
    raise DocumentError(
        "variant-unknown",
        f"adapter {name}: expected one of {', '.join(VARIANTS)} or none, found {supplies.variant!r}",
        hint="mend the condition in fixtures/conditions.json",
    )


def _model_extractor(supplies: Supplies, place: MemoryPlace) -> ModelExtractor:
    if supplies.asks is None or place.gateway is None:
        raise EnvironmentMissing(
            "memory-model-missing",
            "variant model_extraction: expected a gateway to ask a model through, found none",
            hint="plan with an agent that asks a model, or choose an arm that asks none",
        )
    return ModelExtractor(supplies.asks(place), place.gateway.model)

"""The diagnostic arm `oracle_evidence`: the raw events that the gold facts rest on, verbatim.

Told by the answer key which events matter; their text comes from the history like everybody's.
"""

from __future__ import annotations

from typing import Literal

from orchestrator.memory.supplies import Supplies
from orchestrator.memory.tokens import TokenCounter
from orchestrator.memory.verbatim import VerbatimMemory
from orchestrator.model.lifecycle import GoldFacts
from orchestrator.model.task import Event


class EvidenceMemory(VerbatimMemory):
    """Keeps the decisive events and drops the others."""

    name = "oracle_evidence"
    information: Literal["none", "raw", "curated", "gold"] = "gold"

    def __init__(self, counter: TokenCounter) -> None:
        super().__init__(counter)
        self._decisive: frozenset[str] = frozenset()

    def inform(self, gold: GoldFacts) -> None:
        """Learns which events matter."""
        self._decisive = frozenset(event for fact in gold.facts for event in fact.event_ids)

    def unwanted(self, event: Event) -> str | None:
        """Leaves out what no gold fact rests on."""
        return None if event.event_id in self._decisive else "no gold fact rests on it"


def make(name: str, supplies: Supplies) -> EvidenceMemory:
    """Makes the arm."""
    return EvidenceMemory(supplies.counter)

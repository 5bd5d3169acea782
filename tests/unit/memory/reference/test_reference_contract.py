"""The reference pipeline keeps the contract that every memory system is held to, whole and in each variant."""

from __future__ import annotations

from orchestrator.memory.reference import make
from orchestrator.memory.reference.adapter import ReferenceAdapter
from orchestrator.memory.supplies import Supplies
from orchestrator.protocols import MemoryAdapter
from orchestrator.testing.memory import MemoryContract
from tests.unit.memory.lives import COUNTER


class TestTheWhole(MemoryContract):
    def make_adapter(self) -> MemoryAdapter:
        return make("reference", Supplies(COUNTER))


class TestWithoutVectors(MemoryContract):
    def make_adapter(self) -> MemoryAdapter:
        return ReferenceAdapter(COUNTER, embedder=None)


class TestWithoutExtraction(MemoryContract):
    def make_adapter(self) -> MemoryAdapter:
        return make("reference", Supplies(COUNTER, variant="no_enrichment"))

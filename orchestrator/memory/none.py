"""The arm without memory: no store, no items."""

from __future__ import annotations

from orchestrator.memory.builtin import BuiltinMemory


class NoMemoryAdapter(BuiltinMemory):
    """Remembers nothing."""

    name = "none"
    information = "none"

"""The control arm `raw_fts`: raw events, captured and searched, without any extraction.

A product that does not beat it at equal budget has shown storage, not memory.
"""

from __future__ import annotations

from contextlib import closing

from orchestrator.memory.sqlite.capture import capture, open_store, store_sha256
from orchestrator.memory.sqlite.search import search
from orchestrator.model.condition import Condition
from orchestrator.model.memory import MemoryItem, Remembered
from orchestrator.model.task import History


class RawFtsAdapter:
    """Captures the history into SQLite, freezes it, then searches with the task's prompt."""

    def remember(self, condition: Condition, history: History, query: str) -> Remembered:
        """Returns the ranked events; the store's digest is taken before the query is looked at."""
        with closing(open_store()) as store:
            captured, drops = capture(store, history)
            frozen = store_sha256(store)
            hits = search(store, query, condition.retrieve_k or 0)
        return Remembered(
            condition_id=condition.id,
            adapter="raw_fts",
            captured_events=captured,
            capture_drops=drops,
            store_sha256=frozen,
            items=tuple(
                MemoryItem(
                    item_id=hit.event_id,
                    text=f"{hit.at[:10]} {hit.role}: {hit.text}",
                    source_event_ids=(hit.event_id,),
                )
                for hit in hits
            ),
        )

"""Promise: a dump as of a time holds what was recorded by then, compared as times, and nothing else."""

from __future__ import annotations

import pytest

from orchestrator.memory.checks import check_past
from orchestrator.memory.faults import AdapterFault
from orchestrator.model.lifecycle import StoredMemory, StoreDump


def recorded(at: str | None) -> StoreDump:
    memory = StoredMemory(
        memory_id="m1", kind="fact", text="t", scope="s", status="active", recorded_at=at
    )
    return StoreDump(memories=(memory,))


@pytest.mark.parametrize("at", ["2026-01-05T09:00:00Z", "2026-01-05T09:00:00.000Z"])
def test_what_was_recorded_at_the_time_itself_belongs_to_it(at):
    check_past(recorded(at), "2026-01-05T09:00:00Z")


@pytest.mark.parametrize("at", ["2026-01-05T09:00:00.001Z", "2026-01-06T00:00:00Z", None])
def test_what_was_recorded_later_or_at_no_time_does_not(at):
    with pytest.raises(AdapterFault, match="memory m1: expected recorded_at") as caught:
        check_past(recorded(at), "2026-01-05T09:00:00Z")
    assert caught.value.rule == "past-as-it-was"

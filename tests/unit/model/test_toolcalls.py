"""Promise: the log of an arm's tools is read and counted in one way, whoever asks."""

from __future__ import annotations

import pytest

from orchestrator.core.errors import DocumentError
from orchestrator.model.lifecycle import DroppedItem
from orchestrator.model.toolcalls import TOOL_LOG, ServedCall, ToolLog, read_log

CALL = ServedCall(
    seq=0,
    tool="memory_search",
    arguments="{}",
    item_ids=("m2", "m1"),
    left_out=(DroppedItem(item_id="m3", tokens=1, reason="over_budget"),),
    text="",
)
LOG = ToolLog(
    server="memory", adapter="a", tools=(), connected=1, listed=1, calls=(CALL,), refused=0
)


def test_what_was_ranked_is_what_was_answered_and_then_what_was_left_out():
    assert CALL.ranked_ids == ("m2", "m1", "m3")


def test_a_log_is_read_by_its_name():
    assert read_log({TOOL_LOG: LOG.canonical()}.get) == LOG


def test_an_arm_without_tools_has_none():
    assert read_log(lambda _: None) is None


def test_what_is_no_log_is_refused_by_the_name_of_where_it_stood():
    with pytest.raises(DocumentError, match="tool log of t"):
        read_log({TOOL_LOG: b"{}"}.get, where="tool log of t")

"""Promise: what people signed besides money holds too: attempts of agents, calls, tokens in, tokens out."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.core.errors import BudgetExhausted
from orchestrator.gateway.budget import Account, Budget, Reservation
from orchestrator.gateway.meter import bound_usage
from orchestrator.gateway.quota import OverCap
from orchestrator.gateway.wire import read_request
from orchestrator.model.exchange import Cost
from orchestrator.model.usage import Quota, Usage
from tests.unit.gateway.support import PRICES, WIDE, chat, post
from tests.unit.gateway.upstream import USAGES

WIDE_QUOTA = Quota(agent_calls=10**6, provider_calls=10**6, input_tokens=10**9, output_tokens=10**9)
ACCOUNT = Account("t", "c", "agent")
NONE = Cost(usd_micros=0, uncached_usd_micros=0)


def quota(**changes: int) -> Quota:
    return WIDE_QUOTA.model_copy(update=changes)


def budget(folder: Path, **changes: int) -> Budget:
    return Budget(WIDE, folder / "book", real_money=False, quota=quota(**changes))


def refused(made: Budget, bound: Usage) -> str:
    with pytest.raises(OverCap) as error:
        made.reserve(ACCOUNT, "m", 1, bound)
    return error.value.cap


def test_calls_are_counted_to_the_last(tmp_path):
    made = budget(tmp_path, provider_calls=3)
    for _ in range(3):
        made.settle(made.reserve(ACCOUNT, "m", 1), NONE, "none")
    assert refused(made, Usage()) == "provider_calls"
    made.close()


@pytest.mark.parametrize(
    ("cap", "bound"),
    [("input_tokens", Usage(input=40, cache_read=30)), ("output_tokens", Usage(output=70))],
)
def test_tokens_are_set_aside_and_what_was_not_used_comes_back(tmp_path, cap, bound):
    made = budget(tmp_path, **{cap: 100})
    first = made.reserve(ACCOUNT, "m", 1, bound)
    assert refused(made, bound) == cap
    made.settle(first, NONE, "reported", Usage(input=20, cache_write=10, output=30))
    made.settle(made.reserve(ACCOUNT, "m", 1, bound), NONE, "reservation")
    assert refused(made, Usage(input=1, output=1)) == cap
    made.close()


def test_a_call_that_was_not_made_uses_no_tokens(tmp_path):
    made = budget(tmp_path, input_tokens=100)
    made.settle(made.reserve(ACCOUNT, "m", 1, Usage(input=100)), NONE, "none")
    made.reserve(ACCOUNT, "m", 1, Usage(input=100))
    made.close()


def test_after_a_crash_counts_go_on_and_an_open_call_counts_in_full(tmp_path):
    made = budget(tmp_path)
    made.open_attempt("t", 1)
    made.settle(
        made.reserve(ACCOUNT, "m", 1, Usage(input=60, output=60)),
        NONE,
        "reported",
        Usage(input=10, output=20),
    )
    made.reserve(ACCOUNT, "m", 1, Usage(input=30, output=5))
    asyncio.run(made.durable())
    made._book._handle.close()  # as a kill would
    again = budget(tmp_path, agent_calls=2, provider_calls=3, input_tokens=41, output_tokens=26)
    again.open_attempt("t", 2)
    with pytest.raises(OverCap, match="agent calls"):
        again.open_attempt("t", 3)
    assert refused(again, Usage(input=2)) == "input_tokens"
    assert refused(again, Usage(output=2)) == "output_tokens"
    again.reserve(ACCOUNT, "m", 1, Usage(input=1, output=1))
    assert refused(again, Usage()) == "provider_calls"
    again.close()
    third = budget(tmp_path, provider_calls=4, input_tokens=41, output_tokens=26)
    assert refused(third, Usage(input=1)) == "input_tokens"
    third.reserve(ACCOUNT, "m", 1)
    third.close()


@given(
    cap=st.integers(1, 300),
    steps=st.lists(st.tuples(st.integers(0, 120), st.integers(0, 120), st.booleans()), max_size=30),
)
@settings(max_examples=100, deadline=None)
def test_whatever_is_reserved_and_settled_no_more_tokens_are_used(tmp_path_factory, cap, steps):
    made = budget(tmp_path_factory.mktemp("b"), input_tokens=cap, output_tokens=cap)
    waiting: list[tuple[Reservation, Usage]] = []
    used = 0
    for wanted, spent, first in steps:
        if first and waiting:
            reservation, usage = waiting.pop(0)
            made.settle(reservation, NONE, "reported", usage)
            used += usage.input
        try:
            reservation = made.reserve(ACCOUNT, "m", 1, Usage(input=wanted, output=wanted))
        except OverCap:
            continue
        fewer = min(spent, wanted)
        waiting.append((reservation, Usage(input=fewer, output=fewer)))
        assert used + sum(r.bound.input for r, _ in waiting) <= cap
    made.close()


def test_concurrent_calls_never_pass_the_tokens_that_were_signed(make_live, provider):
    """Room for nine calls at a time and, settled, for more than that."""
    body = chat("x" * 50)
    asked = read_request("chat", json.dumps(body).encode(), max_bytes=10**6)
    one = bound_usage(asked, PRICES.models[0])
    cap = 9 * one.input + one.input // 2
    running = make_live(quota=quota(input_tokens=cap))
    opened = running.open()
    with ThreadPoolExecutor(30) as pool:
        answers = list(pool.map(lambda _: post(opened, "/v1/chat/completions", body), range(60)))
    traffic = running.close_trial()
    sent = provider.bill.calls["chat"]
    assert sum(status == 200 for status, _ in answers) == sent
    assert USAGES["chat"].all_input * sent <= cap
    assert sent >= 9
    if sent < 60:
        assert traffic.caps_met == ("input_tokens",)
        assert any(b"input tokens that the approval allows" in body for _, body in answers)


def test_the_last_call_that_was_signed_is_the_last_that_is_sent(make_live, provider):
    running = make_live(quota=quota(provider_calls=2))
    opened = running.open()
    found = [post(opened, "/v1/chat/completions", chat())[0] for _ in range(4)]
    assert found == [200, 200, 400, 400]
    assert len(provider.seen) == 2


def test_no_attempt_is_opened_beyond_those_that_were_signed(make_live):
    running = make_live(quota=quota(agent_calls=2))
    running.open()
    running.close_trial()
    running.open(attempt=2)
    running.close_trial()
    with pytest.raises(BudgetExhausted, match="agent calls"):
        running.open(attempt=3)


def test_a_book_without_its_last_tokens_settled_counts_them_in_full_and_goes_on(tmp_path):
    made = budget(tmp_path)
    made.reserve(ACCOUNT, "m", 1, Usage(input=60, output=5))
    made.close()
    for _ in range(2):
        again = budget(tmp_path, input_tokens=100)
        assert refused(again, Usage(input=41)) == "input_tokens"
        again.close()

"""Promise: no cap is ever passed, every reservation is settled once, and the book is the provider's bill."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.core.errors import IntegrityError, UsageError
from orchestrator.gateway.budget import Account, Budget, Reservation
from orchestrator.gateway.gateway import Gateway
from orchestrator.gateway.meter import bound_usd_micros, cost_of
from orchestrator.gateway.quota import OverCap
from orchestrator.gateway.scripted import ScriptedMode
from orchestrator.gateway.secrets import Secrets
from orchestrator.gateway.wire import read_request
from orchestrator.model.exchange import Cost, Reserved
from orchestrator.model.gateway import Bounds
from orchestrator.model.usage import Caps, Usage
from tests.unit.gateway.support import MUCH, PRICES, SCRIPT, UnixHTTP, chat, post
from tests.unit.gateway.upstream import USAGES

PRICE = PRICES.models[0]
NEVER = Cost(usd_micros=0, uncached_usd_micros=0)


def caps(**changes: int) -> Caps:
    names = ("call", "trial", "condition", "run")
    return Caps(**{f"per_{n}_usd_micros": changes.get(n, MUCH) for n in names})


def account(trial: str = "t", condition: str = "c") -> Account:
    return Account(trial, condition, "agent")


def bill_usd_micros(provider) -> int:
    prices = {"embeddings": PRICES.models[1]}
    return sum(
        count * cost_of(USAGES[api], prices.get(api, PRICE)).usd_micros
        for api, count in provider.bill.calls.items()
    )


def test_200_concurrent_calls_never_pass_a_cap_by_a_micro_usd(make_live, provider):
    """The cap leaves room for 57 reservations at a time and, settled, for more calls than that."""
    body = chat("x" * 50)
    one = bound_usd_micros(read_request("chat", json.dumps(body).encode(), max_bytes=10**6), PRICE)
    cap = 57 * one + one // 2
    running = make_live(caps=caps(run=cap))
    opened = [running.open(f"t/none/chat/e{n}") for n in range(8)]
    with ThreadPoolExecutor(100) as pool:
        answers = list(
            pool.map(lambda n: post(opened[n % 8], "/v1/chat/completions", body), range(200))
        )
    for n in range(8):
        assert running.close_trial(f"t/none/chat/e{n}").unsettled == 0
    committed = peak = 0
    open_calls = {}
    for line in running.spending():
        if isinstance(line.body, Reserved):
            open_calls[line.body.call] = line.body.usd_micros
            committed += line.body.usd_micros
        else:
            committed += line.body.usd_micros - open_calls.pop(line.body.call)
        peak = max(peak, committed)
        assert committed <= cap
    served = [status for status, _ in answers if status == 200]
    refused = [body for status, body in answers if status == 400]
    assert len(served) + len(refused) == 200
    assert len(served) == provider.bill.calls["chat"]
    assert not open_calls
    assert committed == bill_usd_micros(provider)
    assert all(b"budget exhausted" in body for body in refused)
    assert peak > cap - 2 * one or not refused


@pytest.mark.parametrize("scope", ["call", "trial", "condition", "run"])
def test_each_cap_refuses_and_names_itself(tmp_path, scope):
    budget = Budget(caps(**{scope: 100}), tmp_path / "book")
    if scope == "call":
        with pytest.raises(OverCap, match="cap per call leaves 100"):
            budget.reserve(account(), "m", 101)
    budget.reserve(account(), "m", 60)
    if scope != "call":
        with pytest.raises(OverCap, match=f"cap per {scope} leaves 40"):
            budget.reserve(account(), "m", 41)
    others = {"call": account(), "trial": account("other"), "condition": account("u", "other")}
    if scope in others:
        budget.reserve(others[scope], "m", 100)
    else:
        budget.reserve(account("u", "other"), "m", 40)
        with pytest.raises(OverCap):
            budget.reserve(account("u", "other"), "m", 1)
    budget.close()


@given(
    cap=st.integers(0, 400),
    steps=st.lists(st.tuples(st.integers(0, 120), st.integers(0, 120), st.booleans()), max_size=40),
)
@settings(max_examples=150, deadline=None)
def test_whatever_is_reserved_and_settled_the_sum_stays_below_the_cap(tmp_path_factory, cap, steps):
    budget = Budget(caps(run=cap), tmp_path_factory.mktemp("b") / "book", real_money=False)
    waiting: list[tuple[Reservation, Cost]] = []
    refused_rightly = True
    for wanted, spent, settle_first in steps:
        if settle_first and waiting:
            reservation, cost = waiting.pop(0)
            budget.settle(reservation, cost, "reported")
        try:
            reservation = budget.reserve(account(), "m", wanted)
        except OverCap as error:
            refused_rightly &= wanted > error.left
            continue
        cost = min(spent, wanted)
        waiting.append((reservation, Cost(usd_micros=cost, uncached_usd_micros=cost)))
        assert budget.committed_usd_micros() <= cap
    for reservation, cost in waiting:
        budget.settle(reservation, cost, "reported")
        budget.settle(reservation, NEVER, "reported")
    assert refused_rightly
    assert budget.unsettled == 0
    assert budget.committed_usd_micros() <= cap
    budget.close()


def test_after_a_crash_an_open_reservation_counts_in_full(tmp_path):
    budget = Budget(caps(run=100), tmp_path / "book")
    settled = budget.reserve(account(), "m", 30)
    budget.settle(settled, Cost(usd_micros=5, uncached_usd_micros=9), "reported")
    budget.reserve(account(), "m", 60)
    asyncio.run(budget.durable())
    budget._book._handle.close()  # as a kill would
    again = Budget(caps(run=100), tmp_path / "book")
    assert again.committed_usd_micros() == 65
    assert again.unsettled == 0
    with pytest.raises(OverCap, match="leaves 35"):
        again.reserve(account(), "m", 36)
    assert again.reserve(account(), "m", 35).call == 2
    again.close()


def test_a_torn_last_line_is_cut_off_and_any_other_change_is_refused(tmp_path):
    path = tmp_path / "book"
    budget = Budget(caps(), path)
    for amount in (1, 2, 3):
        budget.settle(budget.reserve(account(), "m", amount), NEVER, "none")
    budget.close()
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"seq":6,"pre')
    Budget(caps(), path).close()
    assert path.read_bytes() == whole
    path.write_bytes(whole.replace(b'"usd_micros":2', b'"usd_micros":1'))
    with pytest.raises(IntegrityError, match="line"):
        Budget(caps(), path)


def test_a_book_belongs_to_one_gateway_at_a_time(tmp_path):
    budget = Budget(caps(), tmp_path / "book")
    with pytest.raises(UsageError, match="no gateway holds"):
        Budget(caps(), tmp_path / "book")
    budget.close()


def test_totals_are_the_providers_bill_with_clients_that_go_away(live, provider):
    """Half the clients hang up after the first bytes; their calls are read to the end and charged."""
    opened = live.open()
    body = chat(stream=True, stream_options={"include_usage": True})

    def call(number: int) -> None:
        client = UnixHTTP(opened)
        path = ("/v1/messages", "/v1/chat/completions")[number % 2]
        client.request(
            "POST",
            path,
            body=json.dumps(body).encode(),
            headers={"x-api-key": opened.token("agent"), "x-fake": "slow:15"},
        )
        if number % 4 < 2:
            client.sock.recv(10)
            client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            client.sock.close()
        else:
            client.getresponse().read()
            client.close()

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(call, range(32)))
    deadline = time.monotonic() + 20
    while live.gateway.desk.budget.unsettled and time.monotonic() < deadline:
        time.sleep(0.02)
    traffic = live.close_trial()
    (agent,) = traffic.roles
    assert agent.cost.usd_micros == bill_usd_micros(provider)
    assert {e.outcome for e in live.exchanges()} == {"answered", "client_gone"}
    assert {e.usage_source for e in live.exchanges()} == {"reported"}


@pytest.mark.parametrize("fake", ["cut:1", "cut:3", "drop", "gzip"])
def test_a_call_whose_usage_nobody_reported_is_charged_with_its_bound(live, fake):
    opened = live.open()
    with contextlib.suppress(http.client.IncompleteRead):
        post(opened, "/v1/messages", chat(stream=True), headers={"x-fake": fake})
    traffic = live.close_trial()
    (exchange,) = live.exchanges()
    assert exchange.usage_source == "reservation"
    assert exchange.cost.usd_micros == exchange.reserved_usd_micros > 0
    assert traffic.unsettled == 0


def test_a_stream_that_reports_its_usage_before_it_is_cut_is_charged_with_that(live):
    opened = live.open()
    body = chat(stream=True)
    with pytest.raises(http.client.IncompleteRead):
        post(opened, "/v1/messages", body, headers={"x-fake": "cut:5"})
    live.close_trial()
    (exchange,) = live.exchanges()
    assert (exchange.outcome, exchange.usage_source) == ("upstream_cut", "reported")
    assert exchange.usage == USAGES["messages"]


@pytest.mark.parametrize("status", [400, 401, 404, 500, 529])
def test_an_error_of_the_provider_comes_through_unchanged_and_costs_nothing(live, provider, status):
    opened = live.open()
    found = post(opened, "/v1/messages", chat(), headers={"x-fake": f"status:{status}"})
    traffic = live.close_trial()
    assert found[0] == status
    assert b"status %d" % status in found[1]
    assert traffic.roles[0].cost.usd_micros == 0
    assert len(provider.seen) == 1


def test_a_busy_provider_is_waited_out_before_the_first_byte(live, provider):
    opened = live.open()
    for path in ("/v1/messages", "/v1/responses"):
        body = {"model": "model-1", "messages": [], "input": path, "max_tokens": 5}
        assert post(opened, path, body, headers={"x-fake": "busy:2"})[0] == 200
    live.close_trial()
    for exchange in live.exchanges():
        assert [t.status for t in exchange.tries] == [429, 429, 200]
    assert len(provider.seen) == 6


def test_a_provider_that_stays_busy_becomes_a_503_and_never_a_429(live, provider):
    opened = live.open()
    status, _ = post(opened, "/v1/messages", chat(), headers={"x-fake": "status:429"})
    live.close_trial()
    (exchange,) = live.exchanges()
    assert (status, exchange.outcome) == (503, "upstream_unreachable")
    assert exchange.cost.usd_micros == 0
    assert len(provider.seen) == 4


def test_the_bound_is_above_every_usage_that_fits_the_request():
    asked = read_request("messages", b'{"model":"model-1","max_tokens":50}', max_bytes=999)
    bound = bound_usd_micros(asked, PRICE)
    worst = Usage(cache_write_1h=asked.plain_bytes, output=50)
    assert bound > cost_of(worst, PRICE).usd_micros


def test_costs_are_whole_micro_usd_rounded_up_once():
    usage = Usage(input=1, cache_read=1, output=1)
    assert cost_of(usage, PRICE) == Cost(usd_micros=19, uncached_usd_micros=21)


def test_a_reservation_that_cannot_be_written_down_forwards_nothing(live, provider, monkeypatch):
    opened = live.open()
    assert post(opened, "/v1/messages", chat())[0] == 200
    before = len(provider.seen)

    def full(_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("orchestrator.gateway.log.os.fdatasync", full)
        status, answer = post(opened, "/v1/messages", chat())
    assert (status, b"spend book" in answer) == (503, True)
    assert len(provider.seen) == before
    assert post(opened, "/v1/messages", chat())[0] == 200
    traffic = live.close_trial()
    assert traffic.unsettled == 0
    costs = [e.cost.usd_micros for e in live.exchanges()]
    assert costs[0] == costs[2] > 0
    assert costs[1] == 0


def test_a_record_that_cannot_be_made_leaves_its_book_and_lets_go_of_it(tmp_path):
    """A record without a book would be one whose book was lost."""
    (tmp_path / "record" / "traffic.jsonl").mkdir(parents=True)
    with pytest.raises(IsADirectoryError):
        Gateway(
            ScriptedMode(SCRIPT),
            folder=tmp_path / "record",
            sockets=tmp_path / "s",
            prices=PRICES,
            caps=caps(),
            bounds=Bounds(),
            secrets=Secrets(),
        )
    Budget(caps(), tmp_path / "record" / "spend.jsonl").close()

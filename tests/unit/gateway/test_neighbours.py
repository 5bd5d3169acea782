"""Promise: what one container does to the gateway costs its own trial alone, and neither memory nor disk without end."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncGenerator, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from typing import Literal

import pytest

from orchestrator.gateway.bodies import BodyPack
from orchestrator.gateway.modes import CONTENT_JSON, Answer, Call
from orchestrator.gateway.scripted import ScriptedMode
from orchestrator.model.gateway import Bounds
from orchestrator.model.usage import Caps
from orchestrator.pipeline.breaches import was_capped, was_unavailable
from orchestrator.protocols import GatewayPlace
from tests.unit.gateway.support import SCRIPT, Running, chat, post, running

ROUTE = "/v1/chat/completions"
NEIGHBOUR = "neighbour/none/chat/e1"


class Silent:
    """A mode whose answer never begins, or ends after its first piece."""

    name: Literal["scripted"] = "scripted"

    def __init__(self, piece: bytes = b"") -> None:
        self._piece = piece

    def refuses(self, _: object) -> None:
        return None

    async def answer(self, call: Call) -> Answer:
        if not self._piece:
            await asyncio.sleep(3600)
        return Answer(200, CONTENT_JSON, self._chunks())

    async def _chunks(self) -> AsyncGenerator[bytes, None]:
        yield self._piece
        await asyncio.sleep(3600)

    async def close(self) -> None:
        pass


@contextlib.contextmanager
def two_trials(tmp_path, **bounds: object) -> Iterator[tuple[Running, GatewayPlace, GatewayPlace]]:
    made_bounds = Bounds.model_validate({"idle_s": 20.0, "read_s": 20.0, "close_s": 2.0, **bounds})
    with running(ScriptedMode(SCRIPT), tmp_path, bounds=made_bounds) as made:
        yield made, made.open(), made.open(NEIGHBOUR)


def connected(opened: GatewayPlace, stack: contextlib.ExitStack) -> socket.socket:
    client = stack.enter_context(socket.socket(socket.AF_UNIX))
    client.settimeout(10)
    client.connect(str(opened.folder / "gateway.sock"))
    return client


def served(opened: GatewayPlace) -> bool:
    try:
        return post(opened, ROUTE, chat())[0] == 200
    except (OSError, HTTPException):
        return False


@pytest.mark.parametrize(("own_bound", "expected"), [(4, True), (64, False)])
def test_a_container_that_opens_every_connection_takes_none_of_its_neighbours(
    tmp_path, own_bound, expected
):
    """With a bound of its own that is no bound (64), eight connections in all are taken: the attack is real."""
    with (
        two_trials(tmp_path, connections=8, trial_connections=own_bound) as (_, hostile, other),
        contextlib.ExitStack() as stack,
    ):
        for _ in range(8):
            connected(hostile, stack).sendall(b"POST ")
        assert served(other) == expected


@pytest.mark.parametrize(("bound_bytes", "refused"), [(50_000, True), (10**9, False)])
def test_the_requests_of_one_trial_hold_no_more_memory_than_their_bound(
    tmp_path, bound_bytes, refused
):
    with (
        two_trials(tmp_path, trial_bytes=bound_bytes) as (_, hostile, other),
        contextlib.ExitStack() as stack,
    ):
        head = b"POST %s HTTP/1.1\r\nhost: g\r\ncontent-length: 40000\r\n\r\n" % ROUTE.encode()
        clients = [connected(hostile, stack) for _ in range(3)]
        for client in clients:
            client.sendall(head + b"x" * 30_000)
        clients[-1].settimeout(10 if refused else 1)
        answers = []
        for client in clients:
            client.settimeout(3)
            with contextlib.suppress(TimeoutError, ConnectionError):
                answers.append(client.recv(4096))
        assert any(b" 400 " in answer for answer in answers) == refused
        assert served(other)


def test_what_a_request_held_is_free_again_when_it_is_over(tmp_path):
    with two_trials(tmp_path, trial_bytes=5_000) as (_, hostile, _other):
        assert all(served(hostile) for _ in range(40))


def test_refusals_beyond_their_bound_are_neither_answered_nor_written_down(tmp_path):
    with two_trials(tmp_path, trial_refusals=5) as (made, hostile, other):
        answered = 0
        for _ in range(12):
            with contextlib.suppress(OSError, HTTPException):
                answered += post(hostile, "/v1/nothing", {})[0] == 404
        assert answered == 5
        assert served(hostile), "what is admitted is still served"
        assert served(other)
        traffic = made.close_trial()
        assert [(role.calls, role.refused) for role in traffic.roles] == [(1, 5)]
        mine = [e for e in made.exchanges() if e.trial == traffic.trial]
        assert len(mine) == 6


def test_refusals_that_cost_nothing_hide_no_cap_that_was_met(tmp_path):
    nothing = Caps(
        per_call_usd_micros=0,
        per_trial_usd_micros=0,
        per_condition_usd_micros=0,
        per_run_usd_micros=0,
    )
    bounds = Bounds(trial_refusals=5, close_s=2.0)
    with running(ScriptedMode(SCRIPT), tmp_path, bounds=bounds, caps=nothing) as made:
        opened = made.open()
        for _ in range(8):
            with contextlib.suppress(OSError, HTTPException):
                post(opened, "/v1/nothing", {})
        assert not served(opened)
        assert not served(opened), "and it is written down once"
        traffic = made.close_trial()
    assert (traffic.caps_met, was_capped(traffic)) == (("call",), True)
    assert [role.refused for role in traffic.roles] == [6]


@pytest.mark.parametrize("piece", [b"", b'{"id":'])
def test_a_call_that_ends_with_its_trial_was_not_answered(tmp_path, piece):
    bounds = Bounds(close_s=0.5)
    with running(Silent(piece), tmp_path, bounds=bounds) as made, ThreadPoolExecutor(1) as pool:
        opened = made.open()
        waiting = pool.submit(served, opened)
        deadline = time.monotonic() + 20
        while not made.gateway.desk.budget.unsettled:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        made.close_trial()
        assert not waiting.result(20)
        (exchange,) = made.exchanges()
    assert (exchange.outcome, exchange.usage_source) == ("client_gone", "reservation")
    assert not was_unavailable(exchange)


def test_of_an_answer_above_its_bound_the_record_holds_no_more_than_the_bound(tmp_path):
    bounds = Bounds(answer_bytes=1000, close_s=2.0)
    with running(Silent(b"{" + b" " * 1000), tmp_path, bounds=bounds) as made:
        assert not served(made.open())
        made.close_trial()
        (exchange,) = made.exchanges()
    assert (exchange.outcome, exchange.response.bytes) == ("upstream_cut", 0)


def test_of_refused_bodies_no_more_bytes_than_their_bound_are_stored(tmp_path):
    with two_trials(tmp_path, trial_refused_bytes=5_000) as (made, hostile, _):
        for number in range(4):
            assert post(hostile, ROUTE, b"%d" % number * 2_000)[0] == 400
        made.close_trial()
        bodies = [e.request for e in made.exchanges()]
        assert [bool(body.pieces) for body in bodies] == [True, True, False, False]
        assert all(body.bytes == 2_000 for body in bodies)
    pack = BodyPack(made.folder / "bodies.pack", write=False)
    assert pack.get(bodies[0]) == b"0" * 2_000
    pack.close()

"""Promise: whatever a client sends is answered or dropped, recorded, and never leaves money reserved."""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path

import pytest

from orchestrator.gateway.scripted import ScriptedMode
from orchestrator.model.gateway import Bounds
from tests.unit.gateway.support import SCRIPT, UnixHTTP, chat, post, running

CASES = sorted(
    path.parent for path in Path(__file__).parents[2].glob("cases/gateway/*/request.bin")
)
TIGHT = Bounds(body_bytes=20_000, idle_s=3, read_s=1, write_s=2, close_s=5)


@pytest.fixture
def tight(tmp_path):
    with running(ScriptedMode(SCRIPT), tmp_path, bounds=TIGHT) as made:
        yield made


def send(opened, data: bytes, *, wait_s: float = 10) -> bytes:
    """Sends raw bytes and returns everything that comes back until the end."""
    client = socket.socket(socket.AF_UNIX)
    with client:
        client.settimeout(wait_s)
        client.connect(str(opened.folder / "gateway.sock"))
        try:
            client.sendall(data)
            client.shutdown(socket.SHUT_WR)
        except (BrokenPipeError, ConnectionResetError):
            pass
        answer = b""
        try:
            while piece := client.recv(65536):
                answer += piece
        except ConnectionResetError:
            pass
        return answer


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)
def test_a_hostile_request_is_refused_recorded_and_leaves_no_reservation(tight, case):
    expected = json.loads((case / "expected.json").read_bytes())
    opened, other = tight.open(), tight.open("other/none/chat/e1")
    data = (case / "request.bin").read_bytes()
    data = data.replace(b"{TOKEN}", opened.token("agent").encode())
    data = data.replace(b"{OTHER_TOKEN}", other.token("agent").encode())
    answer = send(opened, data)
    assert answer.split(b" ", 2)[1:2] == [str(expected["status"]).encode()], answer[:300]
    assert post(opened, "/v1/chat/completions", chat())[0] == 200
    traffic = tight.close_trial()
    assert traffic.unsettled == 0
    first, second = tight.exchanges()
    assert (first.outcome, second.outcome) == (expected["outcome"], "answered")
    if expected["outcome"] != "answered":
        assert (first.cost.usd_micros, first.detail is not None) == (0, True)


def test_there_are_cases():
    assert len(CASES) > 40


def test_a_token_is_worthless_once_its_trial_is_closed(tight):
    old = tight.open("a/none/chat/e1")
    tight.close_trial("a/none/chat/e1")
    new = tight.open("a/none/chat/e1", attempt=2)
    assert post(new, "/v1/chat/completions", chat(), token=old.token("agent"))[0] == 403
    assert post(new, "/v1/chat/completions", chat())[0] == 200


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"POST",
        b"POST /v1/messages HTTP/1.1\r\n",
        b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\n1",
    ],
    ids=["nothing", "half a line", "half a head", "half a body"],
)
def test_a_client_that_stalls_is_dropped(tight, data):
    opened = tight.open()
    client = socket.socket(socket.AF_UNIX)
    with client:
        client.settimeout(10)
        client.connect(str(opened.folder / "gateway.sock"))
        client.sendall(data)
        began = time.monotonic()
        while client.recv(65536):
            pass
    assert time.monotonic() - began < 8
    assert post(opened, "/v1/chat/completions", chat())[0] == 200


def test_several_requests_share_a_connection(tight):
    opened = tight.open()
    client = UnixHTTP(opened)
    for _ in range(3):
        client.request(
            "POST",
            "/v1/chat/completions",
            body=json.dumps(chat()),
            headers={"authorization": f"Bearer {opened.token('agent')}"},
        )
        assert client.getresponse().read()
    client.close()
    assert tight.close_trial().roles[0].calls == 3


def test_a_client_that_asks_before_it_sends_is_told_to_go_on(tight):
    opened = tight.open()
    body = json.dumps(chat()).encode()
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nhost: g\r\nexpect: 100-continue\r\nconnection: close\r\n"
        f"authorization: Bearer {opened.token('agent')}\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    client = socket.socket(socket.AF_UNIX)
    with client:
        client.settimeout(10)
        client.connect(str(opened.folder / "gateway.sock"))
        client.sendall(head.encode())
        assert client.recv(100).startswith(b"HTTP/1.1 100")
        client.sendall(body)
        assert client.recv(100).startswith(b"HTTP/1.1 200")


def test_a_client_that_does_not_read_is_given_up_and_its_call_settled(make_live, provider):
    """The answer is larger than any buffer between them."""
    provider.raw = b"x" * 8_000_000
    live = make_live(bounds=TIGHT)
    opened = live.open()
    body = json.dumps(chat()).encode()
    client = socket.socket(socket.AF_UNIX)
    with client:
        client.connect(str(opened.folder / "gateway.sock"))
        client.sendall(
            f"POST /v1/messages HTTP/1.1\r\nhost: g\r\nx-fake: raw\r\nx-api-key: {opened.token('agent')}\r\n"
            f"content-length: {len(body)}\r\n\r\n".encode()
            + body
        )
        deadline = time.monotonic() + 20
        while not live.gateway.desk.tallies["t/none/chat/e1"].roles:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    assert live.close_trial().unsettled == 0
    (exchange,) = live.exchanges()
    assert (exchange.outcome, exchange.usage_source) == ("client_gone", "reservation")


def test_more_connections_than_the_bound_are_turned_away_and_the_rest_is_served(tmp_path):
    bounds = Bounds(connections=4, idle_s=2)
    with running(ScriptedMode(SCRIPT), tmp_path, bounds=bounds) as made:
        opened = made.open()
        held = []
        for _ in range(8):
            client = socket.socket(socket.AF_UNIX)
            client.settimeout(5)
            client.connect(str(opened.folder / "gateway.sock"))
            held.append(client)
        assert held[7].recv(1) == b""
        for client in held:
            client.close()
        deadline = time.monotonic() + 5
        while made.gateway._connections and time.monotonic() < deadline:
            time.sleep(0.01)
        assert post(opened, "/v1/chat/completions", chat())[0] == 200


def test_closing_a_trial_ends_a_call_that_does_not_end_by_itself(make_live):
    live = make_live(bounds=Bounds(close_s=0.3))
    opened = live.open()
    client = UnixHTTP(opened)
    client.request(
        "POST",
        "/v1/messages",
        body=json.dumps(chat(stream=True)),
        headers={"x-api-key": opened.token("agent"), "x-fake": "hang"},
    )
    client.getresponse()
    began = time.monotonic()
    traffic = live.close_trial()
    client.close()
    assert time.monotonic() - began < 8
    assert traffic.unsettled == 0
    (exchange,) = live.exchanges()
    assert exchange.usage_source == "reservation"

"""Promise: no bytes from a client or a provider crash the gateway, hang it, or leave money reserved.

One gateway serves all examples of a test; MEMTRIAL_FUZZ_EXAMPLES asks for more than the usual few.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
from http.client import HTTPException

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchestrator.gateway.scripted import ScriptedMode
from orchestrator.gateway.wire import ROUTES
from orchestrator.model.gateway import Bounds
from tests.unit.gateway.support import SCRIPT, UnixHTTP, chat, post, running
from tests.unit.gateway.test_bad_requests import send

EXAMPLES = int(os.environ.get("MEMTRIAL_FUZZ_EXAMPLES", "60"))
BOUNDS = Bounds(body_bytes=200_000, read_s=2, write_s=2, idle_s=2, close_s=3)
FUZZ = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)
FIELDS = st.sampled_from(
    [
        "messages",
        "input",
        "tools",
        "max_tokens",
        "n",
        "stream",
        "system",
        "usage",
        "service_tier",
        "context_management",
        "stream_options",
        "max_output_tokens",
        "encoding_format",
        "choices",
    ]
)
PIECES = st.sampled_from(
    [
        b"event: message_start\n",
        b"event: response.completed\n",
        b"data: ",
        b"\n\n",
        b"\r",
        b"{",
        b'{"usage":{"prompt_tokens":3,"completion_tokens":2},"choices":[]}',
        b'"usage":',
        b"[DONE]",
        b'{"type":"message_delta","delta":{"stop_reason":"x"},"usage":{"output_tokens":-4}}',
        b"\xff",
    ]
)
WIRE = st.sampled_from(
    [
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/9 x\r\n",
        b"content-length: 5\r\n",
        b"content-length: -5\r\n",
        b"transfer-encoding: chunked\r\n",
        b"\r\n",
        b"5\r\nhello\r\n",
        b"0\r\n\r\n",
        b"zz\r\n",
        b"x" * 70_000,
        b"x-a: b\nc\r\n",
        b"content-encoding: gzip\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"content-type: text/event-stream\r\n",
        b"\x00\x01\x02",
        b"location: //x\r\n",
    ]
)


@pytest.fixture
def steady(tmp_path):
    """A scripted gateway that must still serve, with nothing reserved, when the test is over."""
    with running(ScriptedMode(SCRIPT), tmp_path, bounds=BOUNDS) as made:
        opened = made.open()
        yield opened
        settled(made)
        assert post(opened, "/v1/chat/completions", chat())[0] == 200
        assert made.close_trial().unsettled == 0


def settled(made) -> None:
    deadline = time.monotonic() + 20
    while made.gateway.desk.budget.unsettled:
        assert time.monotonic() < deadline, "a reservation was never settled"
        time.sleep(0.01)


@given(data=st.binary(max_size=400))
@FUZZ
def test_bytes_instead_of_http(steady, data):
    send(steady, data)


@given(
    method=st.sampled_from(["POST", "GET", "PUT", "HEAD", "OPTIONS", "BREW"]),
    target=st.sampled_from([*ROUTES, "/", "/-/lookup", "*", "//", "/v1/messages?beta=true"])
    | st.text(alphabet=st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=40),
    headers=st.lists(
        st.tuples(
            st.sampled_from(
                [
                    "x-a",
                    "content-encoding",
                    "transfer-encoding",
                    "content-length",
                    "connection",
                    "expect",
                    "authorization",
                    "host",
                    "cookie",
                ]
            ),
            st.text(alphabet=st.characters(min_codepoint=32, max_codepoint=255), max_size=30),
        ),
        max_size=4,
    ),
    body=st.binary(max_size=200),
)
@FUZZ
def test_any_head_to_any_route(steady, method, target, headers, body):
    lines = [f"{method} {target} HTTP/1.1", "host: g", f"x-api-key: {steady.token('agent')}"]
    lines += [f"{name}: {value}" for name, value in headers]
    if not any(name == "content-length" for name, _ in headers):
        lines.append(f"content-length: {len(body)}")
    send(steady, "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body)


@given(
    route=st.sampled_from(sorted(ROUTES)),
    fields=st.dictionaries(FIELDS, JSON, max_size=6),
    model=st.sampled_from(["model-1", "embed-1", "other"]),
)
@FUZZ
def test_any_json_to_every_route(steady, route, fields, model):
    status, answer = post(steady, route, {**fields, "model": model})
    assert status in {200, 400}
    assert answer


@given(
    route=st.sampled_from(sorted(ROUTES)),
    kind=st.sampled_from(["application/json", "text/event-stream", "text/html", ""]),
    pieces=st.lists(PIECES | st.binary(max_size=30), max_size=12),
)
@FUZZ
def test_any_answer_of_a_provider(make_live_steady, provider, route, kind, pieces):
    made, opened = make_live_steady
    provider.raw = b"".join(pieces)
    body: dict[str, object] = {
        "model": "embed-1" if "embed" in route else "model-1",
        "messages": [],
        "input": "x",
    }
    status, answer = post(opened, route, body, headers={"x-fake": f"raw:{kind}"})
    assert (status, answer) == (200, provider.raw)
    settled(made)


@given(
    route=st.sampled_from(sorted(ROUTES)),
    pieces=st.lists(WIRE | st.binary(max_size=30), max_size=8),
)
@FUZZ
def test_any_bytes_of_a_provider_instead_of_http(make_live_steady, provider, route, pieces):
    made, opened = make_live_steady
    provider.raw = b"".join(pieces)
    body: dict[str, object] = {
        "model": "embed-1" if "embed" in route else "model-1",
        "messages": [],
        "input": "x",
    }
    with contextlib.suppress(OSError, ValueError, HTTPException):
        post(opened, route, body, headers={"x-fake": "wire"})
    settled(made)


@pytest.fixture
def make_live_steady(make_live):
    made = make_live(bounds=BOUNDS)
    opened = made.open()
    yield made, opened
    settled(made)
    assert post(opened, "/v1/messages", chat())[0] == 200
    assert made.close_trial().unsettled == 0


@given(
    after=st.integers(0, 400),
    stream=st.booleans(),
    fake=st.sampled_from(["", "slow:1", "cut:2", "drop", "status:500"]),
)
@FUZZ
def test_a_client_may_hang_up_at_any_byte(make_live_steady, after, stream, fake):
    made, opened = make_live_steady
    body = json.dumps(chat(stream=stream)).encode()
    data = (
        f"POST /v1/messages HTTP/1.1\r\nhost: g\r\nx-fake: {fake}\r\n"
        f"x-api-key: {opened.token('agent')}\r\ncontent-length: {len(body)}\r\n\r\n"
    ).encode() + body
    client = socket.socket(socket.AF_UNIX)
    with client, contextlib.suppress(OSError):
        client.settimeout(5)
        client.connect(str(opened.folder / "gateway.sock"))
        client.sendall(data[:after] if after < len(data) else data)
        if after >= len(data):
            client.recv(after - len(data) + 1)
    settled(made)


def test_many_clients_at_once_some_of_them_hostile(make_live):
    made = make_live(bounds=BOUNDS)
    opened = made.open()
    faults: list[str] = []

    def work(number: int) -> None:
        try:
            if number % 3 == 0:
                send(opened, b"POST /v1/messages HTTP/1.1\r\ncontent-length: 99\r\n\r\nx" * 3)
            elif number % 3 == 1:
                client = UnixHTTP(opened)
                client.request("POST", "/v1/messages", body=b"{}", headers={"x-fake": "slow:5"})
                client.close()
            elif post(opened, "/v1/messages", chat())[0] != 200:
                faults.append("not served")
        except OSError as error:
            faults.append(str(error))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(60)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not faults
    settled(made)
    assert made.close_trial().unsettled == 0

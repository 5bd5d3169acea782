"""A provider on loopback that speaks the four APIs, keeps its own bill, and misbehaves when it is told to.

The header `x-fake` of a request says how: a client sends it, the gateway passes it on like any other.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

from orchestrator.gateway.answers import Said, as_events, as_json
from orchestrator.gateway.wire import ROUTES
from orchestrator.model.script import ScriptedCall, ScriptedTurn
from orchestrator.model.usage import Api, Usage

USAGES: dict[Api, Usage] = {
    "messages": Usage(input=11, cache_read=70, cache_write=20, cache_write_1h=5, output=9),
    "responses": Usage(input=13, cache_read=17, output=6, reasoning=4),
    "chat": Usage(input=12, cache_read=8, output=7, reasoning=2),
    "embeddings": Usage(input=3),
}
TEXT = 'Grüße: a line\nand another, with {braces} and "quotes".'


@dataclass(slots=True)
class Seen:
    """One request as it arrived."""

    path: str
    headers: list[tuple[str, str]]
    body: bytes


@dataclass(slots=True)
class Bill:
    """What the provider charges for, by API."""

    calls: dict[Api, int] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, api: Api) -> None:
        with self.lock:
            self.calls[api] = self.calls.get(api, 0) + 1


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FakeServer
    behaviours: ClassVar[dict[str, str]] = {}

    def log_message(self, *_: Any) -> None:
        pass

    def date_time_string(self, timestamp: float | None = None) -> str:
        """A fixed date, so that two answers can be compared to the byte."""
        return "Mon, 30 Nov 2026 00:00:00 GMT"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", "0")))
        path = self.path.partition("?")[0]
        self.server.seen.append(Seen(self.path, list(self.headers.items()), body))
        api = ROUTES[path]
        name, _, argument = self.headers.get("x-fake", "").partition(":")
        behaviour = getattr(self, f"fake_{name.replace('-', '_')}", None)
        if behaviour is not None:
            behaviour(api, body, argument)
            return
        self.honest(api, body)

    def honest(self, api: Api, body: bytes, model: str | None = None) -> None:
        self.server.bill.add(api)
        asked = json.loads(body)
        if api == "embeddings":
            self.whole(200, self.embedding(asked["model"]))
            return
        said = self.said(api, asked, model)
        if not asked.get("stream"):
            self.whole(200, as_json(api, said))
            return
        self.begin()
        for event in as_events(api, said):
            self.chunk(event)
        self.chunk(b"")

    def said(self, api: Api, asked: dict[str, Any], model: str | None = None) -> Said:
        calls = (
            (ScriptedCall(name=_tool_name(asked), arguments='{"city":"Bern","n":[1,2]}'),)
            if asked.get("tools")
            else ()
        )
        structured = "response_format" in asked or "output_config" in asked or "text" in asked
        text = '{"verdict":"yes","score":3}' if structured else TEXT
        usage = (asked.get("stream_options") or {}).get("include_usage") is True
        turn = ScriptedTurn(text="" if calls else text, calls=calls)
        return Said(turn, 0, model or asked["model"], USAGES[api], usage)

    def embedding(self, model: str) -> bytes:
        return json.dumps(
            {
                "object": "list",
                "data": [{"object": "embedding", "index": 0, "embedding": [0.5, -0.25]}],
                "model": model,
                "usage": {"prompt_tokens": 3, "total_tokens": 3},
            }
        ).encode()

    def whole(self, status: int, body: bytes, *headers: tuple[str, str]) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("X-Request-Id", "req_1")
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def begin(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("X-Request-Id", "req_1")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    # What a request can ask for with `x-fake: name[:argument]`.

    def fake_status(self, api: Api, body: bytes, argument: str) -> None:
        kind = {"429": "rate_limit_error", "529": "overloaded_error"}.get(argument, "api_error")
        error = {"type": "error", "error": {"type": kind, "message": f"status {argument}"}}
        self.whole(int(argument), json.dumps(error).encode())

    def fake_busy(self, api: Api, body: bytes, argument: str) -> None:
        """Says 429 so many times for each distinct body, then answers."""
        with self.server.bill.lock:
            times = self.server.busy[body] = self.server.busy.get(body, 0) + 1
        if times <= int(argument):
            self.whole(429, b'{"error":{"type":"rate_limit_error"}}', ("retry-after", "0"))
        else:
            self.honest(api, body)

    def fake_cut(self, api: Api, body: bytes, argument: str) -> None:
        """Streams so many events, then drops the connection."""
        self.server.bill.add(api)
        self.begin()
        for number, event in enumerate(as_events(api, self.said(api, json.loads(body)))):
            if number == int(argument):
                break
            self.chunk(event)
        self.close_connection = True

    def fake_drop(self, api: Api, body: bytes, argument: str) -> None:
        """Ends the connection before the head."""
        self.close_connection = True

    def fake_slow(self, api: Api, body: bytes, argument: str) -> None:
        """Waits between events, so many milliseconds."""
        self.server.bill.add(api)
        self.begin()
        for event in as_events(api, self.said(api, json.loads(body))):
            self.chunk(event)
            time.sleep(int(argument) / 1000)
        self.chunk(b"")

    def fake_hang(self, api: Api, body: bytes, argument: str) -> None:
        """Sends a head and then nothing."""
        self.server.bill.add(api)
        self.begin()
        self.server.released.wait(30)
        self.close_connection = True

    def fake_echo(self, api: Api, body: bytes, argument: str) -> None:
        """Says every header back, the provider's key among them, in many small pieces and a header."""
        self.server.bill.add(api)
        text = json.dumps({"error": {"message": dict(self.headers)}}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("X-Echo", self.headers.get("x-api-key") or self.headers["authorization"])
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for at in range(0, len(text), 5):
            self.chunk(text[at : at + 5])
        self.chunk(b"")

    def fake_gzip(self, api: Api, body: bytes, argument: str) -> None:
        import gzip

        self.server.bill.add(api)
        data = gzip.compress(as_json(api, self.said(api, json.loads(body))))
        self.whole(200, data, ("content-encoding", "gzip"))

    def fake_model(self, api: Api, body: bytes, argument: str) -> None:
        """Answers as another model than the one asked for."""
        self.honest(api, body, model=argument)

    def fake_raw(self, api: Api, body: bytes, argument: str) -> None:
        """Sends bytes that the test put down, as an answer of the given type."""
        self.server.bill.add(api)
        data = self.server.raw
        self.send_response(200)
        self.send_header("Content-Type", argument or "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def fake_wire(self, api: Api, body: bytes, argument: str) -> None:
        """Sends bytes that the test put down instead of an HTTP answer."""
        self.server.bill.add(api)
        self.wfile.write(self.server.raw)
        self.close_connection = True

    def fake_redirect(self, api: Api, body: bytes, argument: str) -> None:
        self.whole(307, b"{}", ("location", "http://127.0.0.1:1/v1/messages"))


def _tool_name(asked: dict[str, Any]) -> str:
    tool = asked["tools"][0]
    return str(tool.get("name") or tool["function"]["name"])


class FakeServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 512

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.seen: list[Seen] = []
        self.bill = Bill()
        self.busy: dict[bytes, int] = {}
        self.raw = b""
        self.released = threading.Event()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is what some tests are about."""

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


@contextlib.contextmanager
def fake_provider() -> Iterator[FakeServer]:
    server = FakeServer()
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.released.set()
        server.shutdown()
        server.server_close()
        thread.join(10)

"""A gateway in a thread of its own, a permit for tests, prices and scripts that several tests share."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
from collections.abc import Coroutine, Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, TypeVar

from orchestrator.gateway.gateway import Gateway
from orchestrator.gateway.log import read_lines
from orchestrator.gateway.modes import Mode
from orchestrator.gateway.secrets import Secrets
from orchestrator.model.exchange import Exchange, SpendLine, TrafficLine
from orchestrator.model.gateway import Bounds, Traffic
from orchestrator.model.permit import Permit
from orchestrator.model.script import Scenario, Script, ScriptedCall, ScriptedTurn
from orchestrator.model.usage import Caps, ModelPrice, PriceTable
from orchestrator.protocols import GatewayPlace, TrialPlace

T = TypeVar("T")
PLAN_SHA256 = "a" * 64
PRICES = PriceTable(
    dated="2026-11-30",
    source="invented for tests",
    models=(
        ModelPrice(
            model="model-1",
            apis=("messages", "responses", "chat"),
            input=3_000_000,
            cache_read=300_000,
            cache_write=3_750_000,
            cache_write_1h=6_000_000,
            output=15_000_000,
            max_output_tokens=4096,
        ),
        ModelPrice(
            model="embed-1",
            apis=("embeddings",),
            input=20_000,
            cache_read=0,
            cache_write=0,
            cache_write_1h=0,
            output=0,
            max_output_tokens=1,
        ),
    ),
)
MUCH = 10**12
WIDE = Caps(
    per_call_usd_micros=MUCH,
    per_trial_usd_micros=MUCH,
    per_condition_usd_micros=MUCH,
    per_run_usd_micros=MUCH,
)
SCRIPT = Script(
    scenarios=(
        Scenario(
            name="fix",
            turns=(
                ScriptedTurn(
                    text="Looking.",
                    calls=(ScriptedCall(name="bash", arguments='{"command":"ls"}'),),
                ),
                ScriptedTurn(text="Found it."),
            ),
        ),
    ),
)


def mint_permit(
    *upstreams: tuple[str, str], plan_sha256: str = PLAN_SHA256, **changes: object
) -> Permit:
    """Makes a permit past its constructor, which only tests may do (tests/house)."""
    permit = object.__new__(Permit)
    facts: dict[str, object] = {
        "plan_sha256": plan_sha256,
        "max_usd_micros": MUCH,
        "not_after": "2999-01-01T00:00:00Z",
        "models": tuple(price.model for price in PRICES.models),
        "upstreams": upstreams,
        "quota": None,
    }
    for name, value in {**facts, **changes}.items():
        object.__setattr__(permit, name, value)
    return permit


def place(trial: str = "t/none/chat/e1", **changes: Any) -> TrialPlace:
    facts: dict[str, Any] = {
        "trial": trial,
        "task_id": "t",
        "condition": "none",
        "attempt": 1,
        "roles": ("agent", "memory", "judge"),
    }
    return TrialPlace(**{**facts, **changes})


class Running:
    """A gateway that serves from a thread; every method is called from the test's thread."""

    def __init__(self, mode: Mode, folder: Path, **changes: Any) -> None:
        self.folder = folder / "record"
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        facts: dict[str, Any] = {
            "folder": self.folder,
            "sockets": folder / "s",
            "prices": PRICES,
            "caps": WIDE,
            "bounds": Bounds(),
            "secrets": Secrets(),
        }

        async def make() -> Gateway:
            return Gateway(mode, **{**facts, **changes})

        self.gateway = self.call(make())

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    def open(self, trial: str = "t/none/chat/e1", **changes: Any) -> GatewayPlace:
        return self.call(self.gateway.open_trial(place(trial, **changes)))

    def close_trial(self, trial: str = "t/none/chat/e1") -> Traffic:
        return self.call(self.gateway.close_trial(trial))

    def stop(self) -> None:
        self.call(self.gateway.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def exchanges(self) -> list[Exchange]:
        """Returns what is recorded, after the trials were closed."""
        lines, _, _ = read_lines(self.folder / "traffic.jsonl", TrafficLine)
        return [line.body for line in lines if isinstance(line.body, Exchange)]

    def spending(self) -> list[SpendLine]:
        return read_lines(self.folder / "spend.jsonl", SpendLine)[0]


@contextlib.contextmanager
def running(mode: Mode, folder: Path, **changes: Any) -> Iterator[Running]:
    made = Running(mode, folder, **changes)
    try:
        yield made
    finally:
        made.stop()


class UnixHTTP(HTTPConnection):
    """The standard library's client over a Unix socket."""

    def __init__(self, opened: GatewayPlace, timeout: float = 30) -> None:
        super().__init__("gateway", timeout=timeout)
        self._path = str(opened.folder / "gateway.sock")

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def post(
    opened: GatewayPlace,
    path: str,
    body: object,
    *,
    token: str | None = None,
    headers: dict[str, str] | None = None,
) -> tuple[int, bytes]:
    """Posts JSON (or bytes) and returns status and whole answer."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    word = dict(opened.tokens)["agent"] if token is None else token
    with contextlib.closing(UnixHTTP(opened)) as client:
        client.request(
            "POST",
            path,
            body=data,
            headers={
                "authorization": f"Bearer {word}",
                "content-type": "application/json",
                **(headers or {}),
            },
        )
        answer = client.getresponse()
        return answer.status, answer.read()


def chat(text: str = "hello", **more: object) -> dict[str, object]:
    return {
        "model": "model-1",
        "messages": [{"role": "user", "content": text}],
        "max_tokens": 100,
        **more,
    }

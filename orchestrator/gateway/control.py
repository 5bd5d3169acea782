"""The gateway as a process of its own: told over standard input what to open and close, one JSON line each.

The first line is the set-up; each answer is one line on standard output. When standard input ends, because
the process that started it is done or dead, the gateway ends too.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from dataclasses import asdict

from orchestrator.core.errors import DocumentError, MemtrialError
from orchestrator.core.strictjson import parse_json
from orchestrator.gateway.gateway import Gateway, offline_gateway
from orchestrator.model.gateway import GatewaySetup
from orchestrator.protocols import TrialPlace

MAX_LINE_BYTES = 64 * 1024 * 1024


def run_controlled(make: Callable[[bytes], Gateway] | None = None) -> int:
    """Runs until standard input ends; returns the exit code.

    Args:
        make: makes the gateway from the line of its set-up; by default one that calls no provider.
    """
    return asyncio.run(_main(make or _offline))


def _offline(line: bytes) -> Gateway:
    return offline_gateway(GatewaySetup.parse(line, where="set-up", max_bytes=MAX_LINE_BYTES))


async def _main(make: Callable[[bytes], Gateway]) -> int:
    reader = asyncio.StreamReader(limit=MAX_LINE_BYTES)
    protocol = asyncio.StreamReaderProtocol(reader)
    await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)
    try:
        line = (await reader.readline()).rstrip(b"\n")
        gateway = make(line)
    except MemtrialError as error:
        _say(_failure(error))
        return error.exit_code
    try:
        _say({"ready": True})
        while line := await reader.readline():
            try:
                _say(await _obey(gateway, line))
            except MemtrialError as error:
                _say(_failure(error))
    finally:
        await gateway.close()
    return 0


async def _obey(gateway: Gateway, line: bytes) -> dict[str, object]:
    order = parse_json(line, where="order", max_bytes=MAX_LINE_BYTES)
    if isinstance(order, dict) and set(order) == {"open"} and isinstance(order["open"], dict):
        place = TrialPlace(**{**order["open"], "roles": tuple(order["open"].get("roles", ()))})
        opened = await gateway.open_trial(place)
        return {"folder": str(opened.folder), "tokens": dict(opened.tokens)}
    if isinstance(order, dict) and set(order) == {"close"}:
        traffic = await gateway.close_trial(str(order["close"]))
        return {"traffic": traffic.model_dump(mode="json")}
    raise DocumentError(
        "order-unknown",
        "order: expected open or close, found something else",
        hint="see control.py",
    )


def order_open(place: TrialPlace) -> bytes:
    """Returns the line that opens a trial."""
    return json.dumps({"open": asdict(place)}).encode() + b"\n"


def order_close(trial: str) -> bytes:
    """Returns the line that closes a trial."""
    return json.dumps({"close": trial}).encode() + b"\n"


def _failure(error: MemtrialError) -> dict[str, object]:
    return {
        "failed": {
            "reference": error.reference,
            "message": error.message,
            "hint": error.hint,
            "exit_code": error.exit_code,
        }
    }


def _say(answer: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()

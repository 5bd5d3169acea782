"""Reads the calls of one attempt out of a gateway's record, while the gateway may still be writing it.

Lines of other trials are passed over unread, so the cost grows with the attempt and hardly with the run.
Writes nothing; the chain of the whole record is checked by `verify`, not here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from orchestrator.core.errors import DocumentError
from orchestrator.core.strictjson import parse_json
from orchestrator.gateway.bodies import BodyPack
from orchestrator.gateway.record import BODIES, TRAFFIC
from orchestrator.gateway.wire import RequestRefused, plain_body
from orchestrator.model.exchange import Exchange, TrafficLine

MAX_BODY_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """An exchange with its request, read; `body` is empty where the request cannot be."""

    exchange: Exchange
    body: dict[str, object]
    answer: bytes


def exchanges_of(folder: Path, trial: str, attempt: int) -> Iterator[Exchange]:
    """Yields the exchanges of an attempt in the order of the record.

    Raises:
        DocumentError: a line of the attempt is not what it should be.
    """
    path = folder / TRAFFIC
    wanted = trial.encode()
    for number, raw in enumerate(path.read_bytes().split(b"\n") if path.is_file() else ()):
        if wanted not in raw:
            continue
        line = TrafficLine.parse(raw, where=f"{path.name} line {number + 1}")
        body = line.body
        if isinstance(body, Exchange) and (body.trial, body.attempt) == (trial, attempt):
            yield body


def calls_of(folder: Path, trial: str, attempt: int, *, role: str) -> tuple[RecordedCall, ...]:
    """Returns the admitted calls of a role of an attempt.

    Raises:
        IntegrityError: a body is missing or has other bytes.
        DocumentError: a line of the attempt is not what it should be.
    """
    admitted = [
        exchange
        for exchange in exchanges_of(folder, trial, attempt)
        if exchange.role == role and exchange.ordinal is not None
    ]
    if not admitted:
        return ()
    with closing(BodyPack(folder / BODIES, write=False)) as bodies:
        return tuple(
            RecordedCall(e, _read(e, bodies.get(e.request)), bodies.get(e.response))
            for e in admitted
        )


def _read(exchange: Exchange, raw: bytes) -> dict[str, object]:
    coding = next((h.value for h in exchange.request_headers if h.name == "content-encoding"), "")
    try:
        plain = plain_body(raw, coding, max_bytes=MAX_BODY_BYTES)
        body = parse_json(plain, where="recorded request", max_bytes=MAX_BODY_BYTES)
    except (DocumentError, RequestRefused):
        return {}
    return body if isinstance(body, dict) else {}

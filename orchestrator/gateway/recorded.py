"""Reads the calls of one attempt out of a gateway's record, while the gateway may still be writing it.

Lines of other trials are passed over unread, and one body is held at a time, so the cost grows with the
attempt and hardly with the run. A last line that is not whole yet is another trial's and is left alone.
Writes nothing; the chain of the whole record is checked by `verify`, not here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from orchestrator.core.canonical import canonical_bytes
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


def exchanges_of(folder: Path, trial: str, attempt: int) -> Iterator[Exchange]:
    """Yields the exchanges of an attempt in the order of the record.

    Raises:
        DocumentError: a line of the attempt is not what it should be.
    """
    path = folder / TRAFFIC
    if not path.is_file():
        return
    # As a whole value, so that trial e1 does not read the lines of e10.
    wanted = b'"trial":' + canonical_bytes(trial)
    with path.open("rb") as lines:
        for number, raw in enumerate(lines):
            if wanted not in raw or not raw.endswith(b"\n"):
                continue
            line = TrafficLine.parse(raw, where=f"{path.name} line {number + 1}")
            body = line.body
            if isinstance(body, Exchange) and (body.trial, body.attempt) == (trial, attempt):
                yield body


def admitted(exchanges: Iterable[Exchange], *, role: str) -> tuple[Exchange, ...]:
    """Returns the exchanges of a role that were let through, in order."""
    return tuple(e for e in exchanges if e.role == role and e.ordinal is not None)


def calls_of(folder: Path, exchanges: Iterable[Exchange]) -> Iterator[RecordedCall]:
    """Yields exchanges with their requests, one at a time.

    Raises:
        IntegrityError: a body is missing or has other bytes.
    """
    wanted = tuple(exchanges)
    if wanted:
        with closing(BodyPack(folder / BODIES, write=False)) as bodies:
            for exchange in wanted:
                yield RecordedCall(exchange, read_body(exchange, bodies.get(exchange.request)))


def read_body(exchange: Exchange, raw: bytes) -> dict[str, object]:
    """Returns a recorded request as an object; an empty one where it is none."""
    coding = next((h.value for h in exchange.request_headers if h.name == "content-encoding"), "")
    try:
        plain = plain_body(raw, coding, max_bytes=MAX_BODY_BYTES)
        body = parse_json(plain, where="recorded request", max_bytes=MAX_BODY_BYTES)
    except (DocumentError, RequestRefused):
        return {}
    return body if isinstance(body, dict) else {}

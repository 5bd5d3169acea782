"""All that a reader could make of a bundle's files: what export looks through for secrets.

Beside each file as it is: blobs unpacked, payloads of envelopes decoded, and of the gateway's bodies every
stored piece, the joints of neighbouring pieces, and requests without their content coding. Changes nothing.
"""

from __future__ import annotations

import binascii
import io
import re
from collections.abc import Iterator
from itertools import pairwise

from orchestrator.audit.view import SealedView
from orchestrator.gateway.accounts import BODIES_FILE, read_accounts
from orchestrator.gateway.bodies import PackReader
from orchestrator.gateway.wire import RequestRefused, plain_body
from orchestrator.ledger.blobs import unpack
from orchestrator.model.exchange import Exchange
from orchestrator.model.gateway import Bounds

_PAYLOAD = re.compile(rb'"payload":"([A-Za-z0-9+/=]+)"')
# A secret that is cut in two by the end of a piece is shorter than this on either side.
_JOINT_BYTES = 8 * 1024


def readings(files: SealedView, names: list[str]) -> Iterator[tuple[str, bytes]]:
    """Yields what can be read: where it stands, and the bytes.

    Raises:
        IntegrityError: a blob or a body does not unpack.
    """
    for name in names:
        data = files.read(name)
        if name == BODIES_FILE:
            yield from _pieces(data)
        data = unpack(data, where=name) if name.endswith(".gz") else data
        yield name, data
        for found in _PAYLOAD.finditer(data):
            try:
                yield name, binascii.a2b_base64(found[1])
            except binascii.Error:
                # No payload: these bytes were looked through as they are.
                continue
    if BODIES_FILE in names:
        yield from _bodies(files)


def _pieces(data: bytes) -> Iterator[tuple[str, bytes]]:
    pack = PackReader(io.BytesIO(data), BODIES_FILE)
    for sha256 in sorted(pack.names):
        yield f"{BODIES_FILE}/{sha256}", pack.piece(sha256)


def _bodies(files: SealedView) -> Iterator[tuple[str, bytes]]:
    """Yields what no piece shows: requests without their coding, and both sides of each cut."""
    accounts = read_accounts(files.optional)
    pack = PackReader(io.BytesIO(files.read(BODIES_FILE)), BODIES_FILE)
    seen: set[tuple[str, ...]] = set()
    for exchange in accounts.exchanges() if accounts else ():
        coded = _coding(exchange) != ""
        for body in (exchange.request, exchange.response):
            name = f"{BODIES_FILE}/{body.sha256}"
            if coded and body == exchange.request and body.pieces and (name,) not in seen:
                seen.add((name,))
                yield from _uncoded(exchange, pack.get(body), name)
            for joint in pairwise(body.pieces):
                if joint not in seen:
                    seen.add(joint)
                    yield name, _both_sides(pack, joint)


def _both_sides(pack: PackReader, joint: tuple[str, str]) -> bytes:
    left, right = (pack.piece(sha256) for sha256 in joint)
    return left[-_JOINT_BYTES:] + right[:_JOINT_BYTES]


def _uncoded(exchange: Exchange, data: bytes, name: str) -> Iterator[tuple[str, bytes]]:
    try:
        yield name, plain_body(data, _coding(exchange), max_bytes=Bounds().body_bytes)
    except RequestRefused:
        # The gateway could not read it either; its pieces were looked through as they are.
        return


def _coding(exchange: Exchange) -> str:
    named = (h.value for h in exchange.request_headers if h.name == "content-encoding")
    return next(named, "")

"""Writes down every exchange: headers without credentials, bodies by digest, one chained line each.

Writes `traffic.jsonl` and `bodies.pack`. A body in which a credential stands is withheld: its digest and
length are kept, its bytes are not. What was written before a crash is read again and goes on.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from orchestrator.core.canonical import sha256_hex
from orchestrator.gateway.bodies import BodyPack
from orchestrator.gateway.log import ChainedLog
from orchestrator.gateway.modes import Headers
from orchestrator.gateway.secrets import Secrets
from orchestrator.model.exchange import Body, Exchange, Header, Lookup, TrafficLine

TRAFFIC = "traffic.jsonl"
BODIES = "bodies.pack"
REDACTED = "redacted"
CREDENTIALS = frozenset(
    {b"authorization", b"x-api-key", b"proxy-authorization", b"cookie", b"set-cookie", b"api-key"}
)
MAX_HEADER_CHARS = 4096


class Recorder:
    """The open record of a run."""

    def __init__(self, folder: Path, secrets: Secrets, *, bodies: bool = True) -> None:
        """Opens or makes the record of a folder; without `bodies` only their digests are kept.

        Raises:
            UsageError: another gateway writes it.
            IntegrityError: it was changed.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self._secrets = secrets
        self._keep_bodies = bodies
        self._log = ChainedLog(folder / TRAFFIC, TrafficLine)
        try:
            self._bodies = BodyPack(folder / BODIES, write=True)
        except BaseException:
            self._log.close()
            raise
        self._log.lines.clear()

    def keep(self, data: bytes) -> Body:
        """Stores a body, or withholds it when a credential stands in it."""
        if not self._keep_bodies or self._secrets.find(data) is not None:
            return self.digest_only(data)
        return self._bodies.put(data)

    def digest_only(self, data: bytes) -> Body:
        """Returns what is known of a body whose bytes are withheld."""
        return Body(sha256=sha256_hex(data), bytes=len(data), pieces=())

    def headers(self, headers: Headers) -> tuple[Header, ...]:
        """Returns headers as the record keeps them."""
        return tuple(
            Header(name=name.decode("latin-1").lower(), value=self._value(name.lower(), value))
            for name, value in headers
        )

    def _value(self, name: bytes, value: bytes) -> str:
        if name in CREDENTIALS or self._secrets.find(value) is not None:
            return REDACTED
        return value.decode("latin-1")[:MAX_HEADER_CHARS]

    def text(self, value: str) -> str:
        """Returns a text of a client (target, error) as the record keeps it."""
        shown = value.encode("utf-8", "replace").decode()[:MAX_HEADER_CHARS]
        return REDACTED if self._secrets.find(value.encode("utf-8", "replace")) else shown

    def write(self, body: Exchange | Lookup) -> str:
        """Appends one line; returns its digest."""
        return self._log.append(body)

    async def sync(self) -> None:
        """Returns when everything written so far is on disk, bodies first."""
        self._bodies.flush()
        await asyncio.to_thread(self._bodies.sync)
        await self._log.sync()

    def close(self) -> None:
        """Closes the record."""
        self._bodies.sync()
        self._log.close()
        self._bodies.close()

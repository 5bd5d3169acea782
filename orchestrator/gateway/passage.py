"""The way of an answer back to a client: a key is never let through, and a client that is gone stops nothing.

Pure but for the reply that it is given; a reply is a connection of the server, or a list in a test.
"""

from __future__ import annotations

from typing import Protocol

from orchestrator.gateway.modes import Headers
from orchestrator.gateway.secrets import Secrets
from orchestrator.model.exchange import Outcome


class ClientGone(Exception):
    """The client no longer takes bytes."""


class Reply(Protocol):
    """The way back to a client."""

    async def start(self, status: int, headers: Headers) -> None:
        """Sends the head."""

    async def send(self, data: bytes) -> None:
        """Sends bytes of the body."""

    async def finish(self) -> None:
        """Ends the answer whole."""

    def abort(self) -> None:
        """Ends the connection in the middle, so that the client cannot take the answer for whole."""


class Passage:
    """One answer on its way to a client: stops at a key, and survives a client that is gone."""

    def __init__(self, secrets: Secrets, reply: Reply) -> None:
        self._guard = secrets.guard()
        self._reply = reply
        self._gone = False
        self._muted = False

    def mute(self) -> None:
        """Sends nothing more and ends the connection in the middle."""
        if not self._muted:
            self._muted = True
            self._reply.abort()

    async def start(self, status: int, headers: Headers) -> None:
        """Sends the head."""
        if not self._muted:
            try:
                await self._reply.start(status, headers)
            except ClientGone:
                self._gone = True

    async def send(self, piece: bytes) -> None:
        """Sends what may go on of the next bytes."""
        if self._muted or self._gone:
            return
        through, key_found = self._guard.feed(piece)
        if key_found:
            self.mute()
            return
        await self._send(through)

    async def _send(self, data: bytes) -> None:
        try:
            if data:
                await self._reply.send(data)
        except ClientGone:
            self._gone = True

    async def finish(self) -> None:
        """Sends what was held back and ends the answer whole."""
        if self._muted or self._gone:
            return
        await self._send(self._guard.rest())
        try:
            await self._reply.finish()
        except ClientGone:
            self._gone = True

    def outcome(self, status: int) -> Outcome:
        """Returns how the answer fared, given the provider's status."""
        if self._muted:
            return "refused_secret"
        if self._gone:
            return "client_gone"
        return "answered" if status < 400 else "upstream_refused"

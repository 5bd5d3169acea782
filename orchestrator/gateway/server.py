"""HTTP/1.1 over Unix sockets and loopback: reads one bounded request after another and hands it to the desk.

Parsing is h11's. Every wait has a limit: a client that stalls is dropped, never waited for. Knows no
provider, no money and no token.
"""

from __future__ import annotations

import asyncio
import contextlib

import h11

from orchestrator.gateway.desk import Desk, Incoming
from orchestrator.gateway.modes import Headers
from orchestrator.gateway.passage import ClientGone
from orchestrator.model.gateway import Bounds

READ_BYTES = 64 * 1024
HIGH_WATER_BYTES = 64 * 1024
# The forwarder inside a container reports here what was looked up; there is no other use of it.
LOOKUP_TARGET = b"/-/lookup"


class TooLarge(Exception):
    """A request is larger than its bound."""


class Held:
    """How many bytes of requests the connections of one trial hold together."""

    def __init__(self) -> None:
        self.bytes = 0


class Connection:
    """One connection of a client, from its first byte to its last."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        desk: Desk,
        bounds: Bounds,
        trial: str | None,
        held: Held,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._desk = desk
        self._bounds = bounds
        self._trial = trial
        self._held = held
        self._mine_bytes = 0
        self._h11 = h11.Connection(h11.SERVER, max_incomplete_event_size=bounds.head_bytes)
        self.busy = False
        self.last = False

    async def run(self) -> None:
        """Serves requests until either side ends the connection."""
        try:
            while not self.last and await self._one():
                pass
        except (TimeoutError, ConnectionError, ClientGone):
            pass
        finally:
            self._writer.close()
            with contextlib.suppress(ConnectionError):
                try:
                    async with asyncio.timeout(self._bounds.write_s):
                        await self._writer.wait_closed()
                except TimeoutError:
                    self._writer.transport.abort()

    async def _one(self) -> bool:
        """Serves one request; returns whether another may follow."""
        try:
            return await self._serve_one()
        finally:
            self._held.bytes -= self._mine_bytes
            self._mine_bytes = 0

    async def _serve_one(self) -> bool:
        reply = _H11Reply(self._h11, self._writer, self._bounds)
        request: h11.Request | None = None
        try:
            async with asyncio.timeout(self._bounds.idle_s):
                await self._fill()
            async with asyncio.timeout(self._bounds.read_s):
                event = await self._event()
                if not isinstance(event, h11.Request):
                    return False
                request = event
                self._check_head(event)
                body = await self._body()
        except (h11.RemoteProtocolError, TooLarge) as error:
            await self._desk.malformed(self._incoming(request, b""), reply, str(error))
            return False
        self.busy = True
        try:
            if bytes(request.target) == LOOKUP_TARGET and self._trial is not None:
                await self._look_up(reply, body)
            else:
                await self._desk.serve(self._incoming(request, body), reply)
        finally:
            self.busy = False
        if reply.aborted or self._h11.our_state is not h11.DONE:
            return False
        if self._h11.their_state is not h11.DONE:
            return False
        self._h11.start_next_cycle()
        return True

    async def _fill(self) -> None:
        """Waits for the first bytes of a request, unless some are here already."""
        if not self._h11.trailing_data[0]:
            self._h11.receive_data(await self._reader.read(READ_BYTES))

    async def _event(self) -> object:
        while True:
            event = self._h11.next_event()
            if event is not h11.NEED_DATA:
                return event
            if self._h11.they_are_waiting_for_100_continue:
                go_on = h11.InformationalResponse(status_code=100, headers=[])
                self._writer.write(self._h11.send(go_on) or b"")
            self._h11.receive_data(await self._reader.read(READ_BYTES))

    def _check_head(self, request: h11.Request) -> None:
        """The parser bounds a head that has not ended; one that came in a piece is bounded here."""
        size = len(request.target) + sum(len(n) + len(v) for n, v in request.headers)
        if size > self._bounds.head_bytes:
            raise TooLarge(f"expected a head of at most {self._bounds.head_bytes} bytes")

    async def _body(self) -> bytes:
        body = bytearray()
        while True:
            event = await self._event()
            if isinstance(event, h11.Data):
                body += event.data
                self._hold(len(event.data))
                if len(body) > self._bounds.body_bytes:
                    raise TooLarge(f"expected a body of at most {self._bounds.body_bytes} bytes")
            elif isinstance(event, h11.EndOfMessage):
                return bytes(body)
            else:
                raise ConnectionResetError

    def _hold(self, count: int) -> None:
        """Counts bytes of a request against what its trial may have here at once."""
        self._mine_bytes += count
        self._held.bytes += count
        if self._held.bytes > self._bounds.trial_bytes:
            raise TooLarge(f"expected requests of at most {self._bounds.trial_bytes} bytes at once")

    def _incoming(self, request: h11.Request | None, body: bytes) -> Incoming:
        if request is None:
            return Incoming("?", "", (), body, self._trial)
        return Incoming(
            method=bytes(request.method).decode("latin-1"),
            target=bytes(request.target).decode("latin-1"),
            headers=tuple((bytes(n), bytes(v)) for n, v in request.headers.raw_items()),
            body=body,
            trial=self._trial,
        )

    async def _look_up(self, reply: _H11Reply, body: bytes) -> None:
        self._desk.look_up(self._trial or "", body[:1024].decode("utf-8", "replace"))
        await reply.start(204, ())
        await reply.finish()


class _H11Reply:
    """The way back over one connection."""

    def __init__(
        self, connection: h11.Connection, writer: asyncio.StreamWriter, bounds: Bounds
    ) -> None:
        self._h11 = connection
        self._writer = writer
        self._bounds = bounds
        self._waiting: list[bytes] = []
        self.aborted = False

    async def start(self, status: int, headers: Headers) -> None:
        """Sends the head."""
        try:
            data = self._h11.send(h11.Response(status_code=status, headers=list(headers)))
        except h11.LocalProtocolError as error:
            self.abort()
            raise ClientGone from error
        await self._write(data)

    async def send(self, data: bytes) -> None:
        """Sends bytes of the body."""
        try:
            made = self._h11.send(h11.Data(data=data))
        except h11.LocalProtocolError as error:
            # More bytes than the provider announced.
            self.abort()
            raise ClientGone from error
        await self._write(made)

    async def finish(self) -> None:
        """Ends the answer whole."""
        try:
            made = self._h11.send(h11.EndOfMessage())
        except h11.LocalProtocolError as error:
            # Fewer bytes than the provider announced.
            self.abort()
            raise ClientGone from error
        await self._write(made)
        await self._drain()

    async def _write(self, data: bytes | None) -> None:
        """Takes bytes for the client. What comes together goes out together; nothing waits for more."""
        if self.aborted or self._writer.transport.is_closing():
            self.abort()
            raise ClientGone
        if data:
            self._waiting.append(data)
            if len(self._waiting) == 1:
                asyncio.get_running_loop().call_soon(self._flush)
        waiting = self._writer.transport.get_write_buffer_size() + sum(map(len, self._waiting))
        if waiting > HIGH_WATER_BYTES:
            await self._drain()

    def _flush(self) -> None:
        if self._waiting and not self.aborted:
            self._writer.write(b"".join(self._waiting))
        self._waiting.clear()

    async def _drain(self) -> None:
        self._flush()
        try:
            async with asyncio.timeout(self._bounds.write_s):
                await self._writer.drain()
        except (ConnectionError, TimeoutError) as error:
            self.abort()
            raise ClientGone from error

    def abort(self) -> None:
        """Ends the connection in the middle, behind what was said already."""
        self._flush()
        self.aborted = True
        self._writer.transport.abort()

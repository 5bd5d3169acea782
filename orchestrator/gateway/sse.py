"""Reads server-sent events (HTML standard, 9.2.6) piece by piece, in bounded memory. Pure."""

from __future__ import annotations

from collections.abc import Iterator

MAX_EVENT_BYTES = 16 * 1024 * 1024


class EventTooLarge(Exception):
    """An event does not end within the bound."""


class EventReader:
    """Turns pieces of a stream into (event name, data)."""

    def __init__(self) -> None:
        self._line = bytearray()
        self._name = b""
        self._data: list[bytes] = []
        self._size = 0
        self._after_return = False

    def feed(self, piece: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yields the events that a piece completes.

        Raises:
            EventTooLarge: an event or line is longer than the bound.
        """
        if self._after_return and piece.startswith(b"\n"):
            piece = piece[1:]
        if not piece:
            return
        self._after_return = piece.endswith(b"\r")
        self._line += piece
        self._size += len(piece)
        if self._size > MAX_EVENT_BYTES:
            raise EventTooLarge
        if b"\n" not in piece and b"\r" not in piece:
            return
        whole = bytes(self._line)
        lines = whole.splitlines()
        self._line.clear()
        if not whole.endswith((b"\n", b"\r")):
            self._line += lines.pop()
        for line in lines:
            event = self._take(line)
            if event is not None:
                self._size = len(self._line)
                yield event

    def _take(self, line: bytes) -> tuple[bytes, bytes] | None:
        if not line:
            event = (self._name, b"\n".join(self._data)) if self._data else None
            self._name, self._data = b"", []
            return event
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data.append(value)
        elif field == b"event":
            self._name = value
        return None

"""Bodies of requests and answers, cut into pieces; each distinct piece is stored once, compressed.

A request of an agent repeats the whole conversation so far: cutting between the objects of its arrays
makes the repetition visible. Format of `bodies.pack`: for each piece 32 bytes SHA-256, stored and plain
length as two big-endian 32-bit numbers, then the piece in zlib form (RFC 1950).
"""

from __future__ import annotations

import hashlib
import os
import re
import struct
import zlib
from pathlib import Path
from typing import IO

from orchestrator.core.canonical import sha256_hex
from orchestrator.core.errors import IntegrityError
from orchestrator.gateway.log import lock
from orchestrator.model.exchange import Body

MIN_PIECE_BYTES = 1024
# No request and no answer is larger (`model.gateway.Bounds`); what says so was not written here.
MAX_BODY_BYTES = 64 * 1024 * 1024
# Their places are held in memory; heads of nothing could fill it.
MAX_PIECES = 2**22
_HEAD = struct.Struct(">32sII")
_BETWEEN_OBJECTS = re.compile(rb"\},\s?(?=\{)|\n\n")


def cut(data: bytes) -> list[bytes]:
    """Cuts between neighbouring objects (or events), never into pieces of less than 1 KiB but the last."""
    pieces: list[bytes] = []
    begin = 0
    for found in _BETWEEN_OBJECTS.finditer(data):
        if found.end() - begin >= MIN_PIECE_BYTES:
            pieces.append(data[begin : found.end()])
            begin = found.end()
    if begin < len(data):
        pieces.append(data[begin:])
    return pieces


class PackReader:
    """A pack to read. Holds the place of every piece in memory, never the bytes."""

    def __init__(self, handle: IO[bytes], where: str) -> None:
        self._handle = handle
        self._where = where
        self._places: dict[bytes, tuple[int, int, int]] = {}
        self._heads = 0
        self._end = self._scan()

    def _scan(self) -> int:
        """Reads the heads of all pieces; returns where the last whole one ends."""
        size = self._handle.seek(0, os.SEEK_END)
        at = 0
        while at + _HEAD.size <= size:
            self._handle.seek(at)
            name, stored, plain = _HEAD.unpack(self._handle.read(_HEAD.size))
            following = at + _HEAD.size + stored
            if following > size:
                break
            self._places[name] = (at + _HEAD.size, stored, plain)
            self._heads += 1
            if len(self._places) > MAX_PIECES:
                raise self._broken("the pack", f"more than {MAX_PIECES} pieces")
            at = following
        return at

    @property
    def names(self) -> frozenset[str]:
        """The digests of all stored pieces."""
        return frozenset(name.hex() for name in self._places)

    @property
    def doubled(self) -> int:
        """How many pieces are stored under a name that another has too."""
        return self._heads - len(self._places)

    @property
    def torn_bytes(self) -> int:
        """How many bytes stand behind the last whole piece."""
        return self._handle.seek(0, os.SEEK_END) - self._end

    def piece(self, sha256: str) -> bytes:
        """Returns the bytes of a stored piece.

        Raises:
            IntegrityError: there is none of that name, or it holds other bytes or more than its own.
        """
        return self._piece(bytes.fromhex(sha256))

    def get(self, body: Body) -> bytes:
        """Returns the bytes of a body.

        Raises:
            IntegrityError: a piece is missing or the bytes are not the recorded ones.
        """
        pieces: list[bytes] = []
        left = min(body.bytes, MAX_BODY_BYTES)
        for name in body.pieces:
            pieces.append(self._piece(bytes.fromhex(name)))
            left -= len(pieces[-1])
            if left < 0:
                raise self._broken(body.sha256, f"more than its {body.bytes} bytes")
        data = b"".join(pieces)
        if sha256_hex(data) != body.sha256 or len(data) != body.bytes:
            raise self._broken(body.sha256, "other bytes, or bytes that were withheld")
        return data

    def _piece(self, name: bytes) -> bytes:
        place = self._places.get(name)
        if place is None:
            raise self._broken(name.hex(), "no such piece")
        at, stored, plain = place
        if plain > MAX_BODY_BYTES:
            raise self._broken(name.hex(), f"a piece of {plain} bytes")
        self._handle.seek(at)
        machine = zlib.decompressobj()
        try:
            data = machine.decompress(self._handle.read(stored), plain + 1)
        except zlib.error as error:
            raise self._broken(name.hex(), str(error)) from error
        if hashlib.sha256(data).digest() != name or len(data) != plain:
            raise self._broken(name.hex(), "other bytes")
        if not machine.eof or machine.unused_data:
            raise self._broken(name.hex(), "more than one whole piece")
        return data

    def _broken(self, name: str, found: str) -> IntegrityError:
        return IntegrityError(
            "body-broken",
            f"{self._where}: expected the bytes of {name[:16]}, found {found}",
            hint="restore the recorded folder from a copy",
        )


class BodyPack(PackReader):
    """An open pack of one process."""

    def __init__(self, path: Path, *, write: bool) -> None:
        """Opens a pack, or makes it when it is to be written.

        Raises:
            UsageError: another process writes it.
        """
        handle: IO[bytes] = path.open("a+b" if write else "rb")
        try:
            if write:
                lock(handle, path)
            super().__init__(handle, str(path))
            if write:
                handle.truncate(self._end)
        except BaseException:
            handle.close()
            raise

    def put(self, data: bytes) -> Body:
        """Stores the pieces that are new and returns how to put the bytes together again.

        Of a body that a reader would refuse, or that would make it refuse the pack, only the digest is kept.
        """
        named = [(hashlib.sha256(piece).digest(), piece) for piece in cut(data)]
        new = {name: piece for name, piece in named if name not in self._places}
        if len(data) > MAX_BODY_BYTES or len(self._places) + len(new) > MAX_PIECES:
            return Body(sha256=sha256_hex(data), bytes=len(data), pieces=())
        for name, piece in new.items():
            stored = zlib.compress(piece)
            self._handle.write(_HEAD.pack(name, len(stored), len(piece)) + stored)
            self._places[name] = (self._end + _HEAD.size, len(stored), len(piece))
            self._end += _HEAD.size + len(stored)
        names = tuple(name.hex() for name, _ in named)
        return Body(sha256=sha256_hex(data), bytes=len(data), pieces=names)

    def sync(self) -> None:
        """Makes everything stored so far safe from a crash."""
        self._handle.flush()
        os.fsync(self._handle.fileno())

    def flush(self) -> None:
        """Hands everything stored so far to the operating system."""
        self._handle.flush()

    def close(self) -> None:
        """Closes the file."""
        self._handle.close()

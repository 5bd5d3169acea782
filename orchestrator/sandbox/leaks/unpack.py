"""Finds compressed streams inside bytes and unpacks them within a budget: gzip, zlib, xz, bzip2, zip.

Also finds such streams behind one base64 or hex encoding. Git's loose objects and the objects of its
packs are zlib streams. Pure; the bytes may be hostile, so time and memory are bounded by the budget.
"""

from __future__ import annotations

import binascii
import bz2
import lzma
import mmap
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Protocol

from ahocorasick_rs import BytesAhoCorasick

from orchestrator.sandbox.leaks.forms import squeeze

PROBE_BYTES = 256
PIECE_BYTES = 1 << 16
MIN_CONTENT_BYTES = 8
XZ_MEMORY_BYTES = 128 * 1024 * 1024

# The beginnings of gzip, xz, bzip2 and zip, and the four headers that zlib writes with its usual window.
_MAGICS = (
    b"\x1f\x8b\x08",
    b"\xfd7zXZ\0",
    b"BZh",
    b"PK\x03\x04",
    b"x\x01",
    b"x^",
    b"x\x9c",
    b"x\xda",
)
# The same behind base64 (standard and URL-safe alphabet) and behind hex.
_BASE64_MAGICS = (
    *(b"H4sI", b"/Td6WFoA", b"_Td6WFoA", b"Qlpo", b"UEsDB", b"eAE"),
    *(b"eF" + bytes([c]) for c in b"4567"),
    *(b"eJ" + bytes([c]) for c in b"wxyz0123"),
    *(b"eN" + bytes([c]) for c in b"opqr"),
)
_HEX_MAGICS = tuple(
    case
    for magic in _MAGICS
    for case in dict.fromkeys((magic.hex().encode(), magic.hex().upper().encode()))
)
MIN_ENCODED_BYTES = 20
_RUNS = {"base64": re.compile(rb"[A-Za-z0-9+/_-]+"), "hex": re.compile(rb"[0-9A-Fa-f]+")}
_URL_SAFE = bytes.maketrans(b"-_", b"+/")


@dataclass(slots=True)
class Budget:
    """What unpacking may still use; `exhausted` says that something was left unread."""

    content_bytes: int
    streams: int
    exhausted: bool = False

    def take(self, wanted_bytes: int) -> int:
        """Books so many bytes of content and returns how many are granted."""
        granted = min(wanted_bytes, self.content_bytes)
        self.content_bytes -= granted
        self.exhausted = self.exhausted or granted < wanted_bytes
        return granted


class _Decoder(Protocol):
    @property
    def eof(self) -> bool: ...

    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Embedded:
    """The content of a stream, where it began and what it was."""

    offset: int
    kind: str
    content: bytes


def embedded(data: bytes | mmap.mmap, budget: Budget) -> Iterator[Embedded]:
    """Yields the content of every stream that begins somewhere in the bytes."""
    done = 0
    for _, at, _ in _raw_magics().find_matches_as_indexes(data, overlapping=True):
        # What lies inside a stream is not looked at twice.
        if at < done:
            continue
        start, kind = _decoder_at(data, at)
        if kind is None:
            continue
        content, consumed = _unpack(data, start, kind, budget)
        if len(content) >= MIN_CONTENT_BYTES:
            yield Embedded(at, kind, content)
            done = start + consumed


def encoded_streams(data: bytes, budget: Budget) -> Iterator[Embedded]:
    """Yields the content of streams that stand in the bytes as base64 or hex, line breaks or not.

    Offsets are those of the bytes without white space.
    """
    text = squeeze(data)
    done = 0
    for number, at, _ in _encoded_magics().find_matches_as_indexes(text, overlapping=True):
        encoding = "base64" if number < len(_BASE64_MAGICS) else "hex"
        run = _RUNS[encoding].match(text, at, at + PROBE_BYTES)
        if at < done or run is None or run.end() - at < MIN_ENCODED_BYTES:
            continue
        head = _decoded(run.group(), encoding)
        start, kind = _decoder_at(head, 0)
        if kind is None or not _probe(head, start, kind):
            continue
        run = _RUNS[encoding].match(text, at)
        raw = _decoded(run.group() if run else b"", encoding)
        content, consumed = _unpack(raw, start, kind, budget)
        if len(content) >= MIN_CONTENT_BYTES:
            yield Embedded(at, f"{encoding}({kind})", content)
            done = at + consumed


@cache
def _raw_magics() -> BytesAhoCorasick:
    return BytesAhoCorasick(_MAGICS)


@cache
def _encoded_magics() -> BytesAhoCorasick:
    return BytesAhoCorasick((*_BASE64_MAGICS, *_HEX_MAGICS))


def _decoded(text: bytes, encoding: str) -> bytes:
    if encoding == "hex":
        return binascii.unhexlify(text[: len(text) // 2 * 2])
    text = text.translate(_URL_SAFE)
    if len(text) % 4 == 1:
        text = text[:-1]
    return binascii.a2b_base64(text + b"=" * (-len(text) % 4))


_DECODERS: dict[str, Callable[[], _Decoder]] = {
    "gzip": lambda: _Zlib(31),
    "zlib": lambda: _Zlib(15),
    "zip": lambda: _Zlib(-15),
    "xz": lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=XZ_MEMORY_BYTES),
    "bzip2": bz2.BZ2Decompressor,
}


class _Zlib:
    """zlib's decoder in the shape of the other two: what a call leaves unread is kept for the next."""

    def __init__(self, window_bits: int) -> None:
        self._inner = zlib.decompressobj(window_bits)

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def needs_input(self) -> bool:
        return not self._inner.unconsumed_tail

    def decompress(self, data: bytes, max_length: int, /) -> bytes:
        return self._inner.decompress(self._inner.unconsumed_tail + data, max_length)


def _decoder_at(data: bytes | mmap.mmap, offset: int) -> tuple[int, str | None]:
    """Returns (where the compressed bytes begin, kind) of a magic at an offset."""
    head = data[offset : offset + 30]
    if head.startswith(b"\x1f\x8b"):
        return offset, "gzip"
    if head.startswith(b"\xfd7zXZ"):
        return offset, "xz"
    if head.startswith(b"BZh"):
        return offset, "bzip2"
    if head.startswith(b"PK"):
        # APPNOTE.TXT section 4.3.7: method at 8, lengths of name and extra field at 26 and 28.
        deflated = len(head) == 30 and int.from_bytes(head[8:10], "little") == 8
        skip = 30 + int.from_bytes(head[26:28], "little") + int.from_bytes(head[28:30], "little")
        return offset + skip, "zip" if deflated else None
    return offset, "zlib" if head.startswith(b"\x78") else None


def _probe(data: bytes, start: int, kind: str) -> bytes:
    try:
        return _DECODERS[kind]().decompress(data[start : start + PROBE_BYTES], PROBE_BYTES)
    except (OSError, EOFError, zlib.error, lzma.LZMAError):
        return b""


def _unpack(data: bytes | mmap.mmap, start: int, kind: str, budget: Budget) -> tuple[bytes, int]:
    """Unpacks one stream piece by piece; a broken end keeps what came before it."""
    if budget.streams <= 0 or budget.content_bytes <= 0:
        budget.exhausted = True
        return b"", 0
    decoder = _DECODERS[kind]()
    content = bytearray()
    position, size = start, PROBE_BYTES
    try:
        while not decoder.eof and budget.content_bytes > 0:
            hungry = getattr(decoder, "needs_input", True)
            piece = data[position : position + size] if hungry else b""
            if hungry and not piece:
                break
            made = decoder.decompress(piece, PIECE_BYTES)
            position, size = position + len(piece), PIECE_BYTES
            content += made[: budget.take(len(made))]
    except (OSError, EOFError, zlib.error, lzma.LZMAError):
        pass
    budget.exhausted = budget.exhausted or (budget.content_bytes <= 0 and not decoder.eof)
    if content:
        budget.streams -= 1
    # The last piece may reach past the end of the stream; only what surely belongs to it is skipped.
    return bytes(content), max(
        0, position - start - PIECE_BYTES
    ) if position - start > PROBE_BYTES else 0

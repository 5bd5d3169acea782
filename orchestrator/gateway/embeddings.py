"""Scripted embeddings: vectors from arithmetic over words, the same on every machine. No model is asked.

Each word's SHA-256 names a few places and signs; the sum is scaled to length 1. Texts that share words
are near each other, and that is all this can do: a run that uses it is declared `hash`.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import struct

from orchestrator.gateway.wire import Asked, RequestRefused

_WORD = re.compile(r"\w+")
PLACES_PER_WORD = 4
MAX_TEXTS = 2048


def texts_of(asked: Asked) -> list[str]:
    """Returns the texts to embed.

    Raises:
        RequestRefused: the input is not a text, a list of texts, or tokens.
    """
    value = asked.body.get("input")
    items = value if isinstance(value, list) else [value]
    if items and all(isinstance(item, int) for item in items):
        items = [items]
    if not items or len(items) > MAX_TEXTS:
        raise RequestRefused(f"input: expected 1 to {MAX_TEXTS} texts", policy=False)
    texts = []
    for item in items:
        if isinstance(item, list) and all(isinstance(token, int) for token in item):
            texts.append(" ".join(str(token) for token in item))
        elif isinstance(item, str) and item:
            texts.append(item)
        else:
            raise RequestRefused("input: expected texts", policy=False)
    return texts


def hash_vector(text: str, dimensions: int) -> list[float]:
    """Returns the vector of a text; its length is 1, or 0 for a text without words."""
    vector = [0.0] * dimensions
    for word in _WORD.findall(text.casefold()):
        digest = hashlib.sha256(word.encode()).digest()
        for place in range(PLACES_PER_WORD):
            number = int.from_bytes(digest[place * 4 : place * 4 + 4], "big")
            vector[(number >> 1) % dimensions] += 1.0 if number & 1 else -1.0
    length = math.sqrt(sum(value * value for value in vector))
    return [value / length for value in vector] if length else vector


def embeddings_json(asked: Asked, vectors: list[list[float]], tokens: int) -> bytes:
    """Returns the answer in the words of the Embeddings API; `base64` is little-endian 32-bit floats."""
    packed = asked.body.get("encoding_format") == "base64"
    data = [
        {
            "object": "embedding",
            "index": index,
            "embedding": base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
            if packed
            else vector,
        }
        for index, vector in enumerate(vectors)
    ]
    return json.dumps(
        {
            "object": "list",
            "data": data,
            "model": asked.model,
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        }
    ).encode()

"""Words of prompts, facts and events for overlap and difficulty. Pure; nothing here decides a trial."""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter

from orchestrator.memory.stopwords import STOP_WORDS

HASH_DIMENSIONS = 4096


def content_words(text: str) -> list[str]:
    """Returns the words of a text without stop words, folded, in order."""
    words = re.findall(r"[a-z0-9]+", text.casefold())
    return [word for word in words if word not in STOP_WORDS and len(word) > 1]


def containment(part: str, whole: str) -> float:
    """Returns which share of the distinct content words of `part` occurs in `whole`."""
    wanted = set(content_words(part))
    return len(wanted & set(content_words(whole))) / len(wanted) if wanted else 0.0


def shared_trigrams(one: str, other: str) -> list[str]:
    """Returns the runs of three content words that both texts have."""

    def grams(text: str) -> set[tuple[str, ...]]:
        words = content_words(text)
        return set(zip(words, words[1:], words[2:], strict=False))

    return sorted(" ".join(gram) for gram in grams(one) & grams(other))


def hash_vector(text: str) -> dict[int, float]:
    """Returns the hash embedding of a text: counts of words by SHA-256 bucket, of length 1."""
    counts = Counter(
        int.from_bytes(hashlib.sha256(word.encode()).digest()[:4], "big") % HASH_DIMENSIONS
        for word in content_words(text)
    )
    norm = math.sqrt(sum(n * n for n in counts.values()))
    return {bucket: n / norm for bucket, n in counts.items()} if norm else {}


def cosine(one: dict[int, float], other: dict[int, float]) -> float:
    """Returns the cosine of two hash embeddings."""
    return sum(weight * other.get(bucket, 0.0) for bucket, weight in one.items())

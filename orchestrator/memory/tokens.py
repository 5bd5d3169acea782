"""Counts tokens in the frozen unit o200k_base (OpenAI's public encoding), offline.

The encoding's tables are loaded on first use, once per counter. Text is counted as ordinary text: markers
of special tokens inside it have no power.
"""

from __future__ import annotations

import threading
from typing import Any

UNIT = "o200k_base"


class TokenCounter:
    """A thread-safe counter."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._encoding: Any = None

    def count(self, text: str) -> int:
        """Returns the number of o200k_base tokens of a text."""
        if not text:
            return 0
        with self._lock:
            if self._encoding is None:
                import bpe_openai

                self._encoding = bpe_openai.get_encoding(UNIT)
            return len(self._encoding.encode(text, disallowed_special=()))

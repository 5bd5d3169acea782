"""Counts tokens in the frozen unit o200k_base (OpenAI's public encoding), offline.

The encoding's tables are loaded on first use, once per counter. Text is counted as ordinary text: markers
of special tokens inside it have no power, and its length has no limit.
"""

from __future__ import annotations

import threading
import warnings
from importlib.metadata import distribution
from pathlib import Path
from typing import Final, Protocol

from orchestrator.core.canonical import sha256_hex

UNIT: Final = "o200k_base"


PACKAGE: Final = "bpe-openai"
DATA_FILE: Final = "bpe_openai/data/o200k_base.tiktoken.gz"


def tokenizer_identity() -> tuple[str, str, str]:
    """Returns (package, version, SHA-256 of the encoding's data) without loading any of it."""
    found = distribution(PACKAGE)
    data = Path(str(found.locate_file(DATA_FILE))).read_bytes()
    return PACKAGE, found.version, sha256_hex(data)


class _Tokenizer(Protocol):
    def count(self, text: str, /) -> int: ...


class TokenCounter:
    """A thread-safe counter."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tokenizer: _Tokenizer | None = None

    def count(self, text: str) -> int:
        """Returns the number of o200k_base tokens of a text; a lone surrogate counts as U+FFFD."""
        if not text:
            return 0
        return self._loaded().count(
            text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        )

    def _loaded(self) -> _Tokenizer:
        with self._lock:
            if self._tokenizer is None:
                with warnings.catch_warnings():
                    # Its import opens the tables by a function that Python 3.11 and 3.12 call deprecated.
                    warnings.simplefilter("ignore", DeprecationWarning)
                    # The tiktoken-like wrapper refuses a million characters; the binding does not.
                    from bpe_openai._bindings import (
                        tokenizer_for_encoding,
                    )

                self._tokenizer = tokenizer_for_encoding(UNIT)
            return self._tokenizer

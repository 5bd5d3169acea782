"""Keeps credentials out of containers and records: finds them in bytes, cuts an answer that echoes one.

Pure but for its memory of the keys it guards. Knows a key's plain, base64 and hexadecimal form, and the
shapes of common credentials.
"""

from __future__ import annotations

import base64
import re
from urllib.parse import quote

# Name, bytes that stand in every match (looked for first, because that is quick), shape.
_SHAPES: tuple[tuple[str, bytes, re.Pattern[bytes]], ...] = (
    ("anthropic-key", b"sk-ant-", re.compile(rb"sk-ant-[A-Za-z0-9_-]{20,}")),
    ("openai-key", b"sk-", re.compile(rb"\bsk-(?:proj-|svcacct-)?[A-Za-z0-9_-]{32,}")),
    ("aws-key-id", b"AKIA", re.compile(rb"\bAKIA[0-9A-Z]{16}\b")),
    ("aws-key-id", b"ASIA", re.compile(rb"\bASIA[0-9A-Z]{16}\b")),
    ("github-token", b"gh", re.compile(rb"\bgh[pousr]_[A-Za-z0-9]{36}")),
    ("github-token", b"github_pat_", re.compile(rb"\bgithub_pat_\w{60,}")),
    ("slack-token", b"xox", re.compile(rb"\bxox[abprs]-[A-Za-z0-9-]{20,}")),
    ("private-key", b"PRIVATE KEY", re.compile(rb"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----")),
)
MIN_KEY_BYTES = 8


class Secrets:
    """The keys of this process and what they look like in transit."""

    def __init__(self, keys: tuple[str, ...] = ()) -> None:
        self._forms = tuple(
            sorted({form for key in keys for form in _forms(key)}, key=len, reverse=True)
        )
        self.longest = max((len(form) for form in self._forms), default=0)

    def has_key(self, data: bytes) -> bool:
        """Tells whether one of this process's keys stands in the bytes."""
        return any(form in data for form in self._forms)

    def find(self, data: bytes) -> str | None:
        """Returns what kind of credential stands in the bytes, or None."""
        if self.has_key(data):
            return "provider-key"
        return next(
            (name for name, mark, shape in _SHAPES if mark in data and shape.search(data)), None
        )

    def guard(self) -> KeyGuard:
        """Returns a guard for one answer."""
        return KeyGuard(self._forms)


def _forms(key: str) -> set[bytes]:
    raw = key.encode()
    # The last characters of a base64 text depend on what follows the key; the first ones do not.
    encoded = base64.b64encode(raw)[: len(raw) * 4 // 3]
    return {
        raw,
        encoded,
        encoded.replace(b"+", b"-").replace(b"/", b"_"),
        raw.hex().encode(),
        quote(key, safe="").encode(),
    }


class KeyGuard:
    """Looks at an answer piece by piece and lets nothing of a key through, also not across pieces."""

    def __init__(self, forms: tuple[bytes, ...]) -> None:
        self._forms = forms
        self._held = b""
        self._longest_part = max((len(form) - 1 for form in forms), default=0)
        # Where the beginning of a key can stand; zero-width, so that overlapping ones are all seen.
        starts = {re.escape(form[:2]) for form in forms} | {
            re.escape(form[:1]) + rb"\Z" for form in forms
        }
        self._first = re.compile(b"(?=" + (b"|".join(sorted(starts)) or b"(?!)") + b")")

    def feed(self, piece: bytes) -> tuple[bytes, bool]:
        """Returns (what may go on, whether a key was met). After a key nothing may go on."""
        data = self._held + piece
        if any(form in data for form in self._forms):
            return b"", True
        keep = self._tail(data)
        self._held = data[len(data) - keep :]
        return data[: len(data) - keep], False

    def rest(self) -> bytes:
        """Returns what was held back because it could have been the beginning of a key."""
        held, self._held = self._held, b""
        return held

    def _tail(self, data: bytes) -> int:
        """Returns how many bytes at the end are the beginning of a key."""
        end = data[-self._longest_part :] if self._longest_part else b""
        for found in self._first.finditer(end):
            rest = end[found.start() :]
            if any(form.startswith(rest) for form in self._forms):
                return len(rest)
        return 0

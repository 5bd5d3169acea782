"""Replaces secrets in history by typed marks before anything is stored. Pure and byte-stable.

A mark names the kind of secret and nothing of its value; redacting twice changes nothing.
"""

from __future__ import annotations

import math
import re
from collections import Counter

_PATTERNS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("private-key", re.compile(r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,30}PRIVATE KEY-----|\Z)", re.DOTALL)),
    ("github-token", re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{20,255}|github_pat_[A-Za-z0-9_]{20,255})\b")),
    ("gitlab-token", re.compile(r"\bglpat-[A-Za-z0-9_-]{20,64}")),
    ("slack-token", re.compile(r"\bxox[abeoprs]-[A-Za-z0-9-]{10,255}")),
    ("aws-key", re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b")),
    ("model-key", re.compile(r"\bsk-[A-Za-z0-9_-]{20,255}")),
    ("jwt", re.compile(r"\beyJ[A-Za-z0-9_-]{8,2000}\.[A-Za-z0-9_-]{8,4000}\.[A-Za-z0-9_-]{4,2000}")),
    ("bearer-token", re.compile(r"(?i)(?<=bearer )[A-Za-z0-9._~+/=-]{16,2000}")),
)
_ASSIGNED = re.compile(r"(?i)\b((?:[a-z0-9]{1,40}[_-]){0,4}(?:password|passwd|secret|api[_-]?key|token)\s{0,3}[:=]\s{0,3}[\"']?)([^\s\"',;]{8,400})")
_MIN_ENTROPY_BITS = 2.8


def redact(text: str) -> str:
    """Returns the text with every known kind of secret replaced."""
    for kind, pattern in _PATTERNS:
        text = pattern.sub(f"[redacted:{kind}]", text)
    return _ASSIGNED.sub(_assigned, text)


def _assigned(match: re.Match[str]) -> str:
    value = match[2]
    if value.startswith("[redacted:") or _entropy_bits(value) < _MIN_ENTROPY_BITS:
        return match[0]
    return f"{match[1]}[redacted:assigned-secret]"


def _entropy_bits(value: str) -> float:
    """Shannon entropy per character; prose and plain words stay below random values."""
    counts = Counter(value)
    return -sum(n / len(value) * math.log2(n / len(value)) for n in counts.values())

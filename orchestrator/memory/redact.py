"""Replaces secrets in history by typed marks before anything is stored. Pure and byte-stable.

A mark names the kind of secret and nothing of its value; redacting twice changes nothing. Plain words,
identifiers and calls are left alone, so that a remembered decision is not mistaken for a password.
"""

from __future__ import annotations

import math
import re
from collections import Counter

# Repetitions that could be retried from many starting points are bounded; the rest are linear.
_PATTERNS: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "private-key",
        re.compile(
            r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----|\Z)",
            re.DOTALL,
        ),
    ),
    (
        "github-token",
        re.compile(r"(?<![A-Za-z0-9])(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,})"),
    ),
    ("gitlab-token", re.compile(r"(?<![A-Za-z0-9])glpat-[A-Za-z0-9_-]{20,}")),
    ("slack-token", re.compile(r"(?<![A-Za-z0-9])xox[abeoprs]-[A-Za-z0-9-]{10,}")),
    ("aws-key", re.compile(r"(?<![A-Za-z0-9])(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])")),
    ("model-key", re.compile(r"(?<![A-Za-z0-9])sk-[A-Za-z0-9_-]{20,}")),
    (
        "jwt",
        re.compile(
            r"(?<![A-Za-z0-9])eyJ[A-Za-z0-9_-]{8,2000}\.[A-Za-z0-9_-]{8,4000}\.[A-Za-z0-9_-]{4,}"
        ),
    ),
    (
        "bearer-token",
        re.compile(r"(?i)(?<=bearer )(?=[a-z._~+/=-]{0,400}[0-9])[a-z0-9._~+/=-]{16,}"),
    ),
)
_ASSIGNED = re.compile(
    r"(?i)((?:password|passwd|secret|token|(?:api|access|secret|private)[_-]?key)[\"']?\s{0,3}[:=]\s{0,3}[\"']?)([^\s\"',;]{8,})"
)
MARK = re.compile(r"\[redacted:[a-z-]+\]")
_MIN_ENTROPY_BITS = 2.8
_SPECIAL = frozenset("@#$%^&*!")


def redact(text: str) -> str:
    """Returns the text with every known kind of secret replaced."""
    for kind, pattern in _PATTERNS:
        text = pattern.sub(f"[redacted:{kind}]", text)
    return _ASSIGNED.sub(_assigned, text)


def _assigned(match: re.Match[str]) -> str:
    value = match[2]
    # What a pattern above has marked already is not judged again: redacting twice must change nothing.
    if not _looks_random(MARK.sub("", value)):
        return match[0]
    return f"{match[1]}[redacted:assigned-secret]"


def _looks_random(value: str) -> bool:
    """Letters mixed with digits or special characters, no call, and enough entropy for a password."""
    letters = any(c.isalpha() for c in value)
    mixed = any(c.isdigit() or c in _SPECIAL for c in value)
    return letters and mixed and "(" not in value and _entropy_bits(value) >= _MIN_ENTROPY_BITS


def _entropy_bits(value: str) -> float:
    """Returns the Shannon entropy in bits per character."""
    counts = Counter(value)
    return -sum(n / len(value) * math.log2(n / len(value)) for n in counts.values())

"""Locks in the form of pip's requirements with hashes. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from orchestrator.core.errors import DocumentError

_PIN = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?==([^\s;\\]+)")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class Pin:
    """A locked distribution."""

    name: str
    version: str
    sha256s: frozenset[str]


def parse_lock(text: str) -> tuple[Pin, ...]:
    """Reads a lock in the form of pip's requirements with hashes.

    Raises:
        DocumentError: a line that pins no exact version.
    """
    joined = re.sub(r"\\\n", " ", text)
    pins: list[Pin] = []
    for line in joined.split("\n"):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _PIN.match(line.strip())
        if match is None:
            raise DocumentError(
                "lock-not-exact",
                f"expected name==version with hashes, found {line.strip()[:60]!r}",
                hint="make the lock as requirements/README.md says",
            )
        pins.append(Pin(normalised(match[1]), match[2], frozenset(_HASH.findall(line))))
    return tuple(pins)


def normalised(name: str) -> str:
    """Returns the name by which distributions are compared (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()

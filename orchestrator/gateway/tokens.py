"""Run tokens: for each trial, attempt and role one random word, known to this process as a digest only.

Nothing is written. A token is good for one trial at one socket, and for nothing once the trial is closed.
"""

from __future__ import annotations

import base64
import secrets
from dataclasses import dataclass

from orchestrator.core.canonical import sha256_hex
from orchestrator.model.exchange import Role

TOKEN_BYTES = 20


@dataclass(frozen=True, slots=True)
class Grant:
    """Whom a token stands for."""

    trial: str
    task_id: str
    condition: str
    attempt: int
    role: Role


class TokenRegistry:
    """The tokens that are good at present."""

    def __init__(self) -> None:
        self._grants: dict[str, Grant] = {}

    def issue(self, grant: Grant) -> str:
        """Makes a token."""
        word = base64.b32encode(secrets.token_bytes(TOKEN_BYTES)).decode("ascii").lower()
        token = f"mtr-{grant.role}-{word}"
        self._grants[sha256_hex(token.encode())] = grant
        return token

    def find(self, token: str) -> Grant | None:
        """Returns whom a token stands for; None for any other word."""
        return self._grants.get(sha256_hex(token.encode("utf-8", "replace")))

    def revoke(self, trial: str) -> None:
        """Makes the tokens of a trial worthless."""
        self._grants = {key: g for key, g in self._grants.items() if g.trial != trial}


def token_of(headers: tuple[tuple[bytes, bytes], ...]) -> str | None:
    """Returns the token that a request carries, or None if it carries none or two different ones."""
    found = {value.strip() for name, value in headers if name.lower() == b"x-api-key"}
    for name, value in headers:
        if name.lower() == b"authorization":
            kind, _, rest = value.partition(b" ")
            found.add(rest.strip() if kind.lower() == b"bearer" else value)
    return found.pop().decode("latin-1") if len(found) == 1 else None

"""What a mode is: something that answers an admitted call. Scripted, replayed and live calls differ here only.

Holds shapes, no behaviour. A mode never sees a client's connection, a run token or the spend book.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Literal, Protocol

from orchestrator.gateway.wire import Asked
from orchestrator.model.exchange import Match, Role, UpstreamTry

Headers = tuple[tuple[bytes, bytes], ...]
CONTENT_JSON: Headers = ((b"content-type", b"application/json"),)
CONTENT_EVENTS: Headers = ((b"content-type", b"text/event-stream; charset=utf-8"),)


@dataclass(frozen=True, slots=True)
class Call:
    """An admitted call: who calls, what was asked, and the bytes as they came."""

    trial: str
    task_id: str
    attempt: int
    role: Role
    ordinal: int
    asked: Asked
    target: str
    headers: Headers
    raw: bytes


@dataclass(slots=True)
class Answer:
    """An answer that has begun. `chunks` are its bytes; `tries` grew while it was sought."""

    status: int
    headers: Headers
    chunks: AsyncGenerator[bytes, None]
    tries: list[UpstreamTry] = field(default_factory=list)
    match: Match | None = None


class CannotAnswer(Exception):
    """The mode has no answer. Nothing is charged, unless the call `maybe_done` at the provider."""

    def __init__(
        self,
        outcome: Literal[
            "cassette_miss",
            "upstream_unreachable",
            "upstream_cut",
            "not_permitted",
            "refused_policy",
        ],
        reason: str,
        *,
        status: int,
        tries: tuple[UpstreamTry, ...] = (),
        match: Match | None = None,
        maybe_done: bool = False,
    ) -> None:
        super().__init__(reason)
        self.outcome = outcome
        self.status = status
        self.tries = tries
        self.match = match
        self.maybe_done = maybe_done


class UpstreamCut(Exception):
    """The answer ended before its end."""


class Mode(Protocol):
    """Answers calls."""

    @property
    def name(self) -> Literal["scripted", "replay", "live"]:
        """What the record calls it."""

    def refuses(self, asked: Asked) -> str | None:
        """Returns why it may not answer such a request, asked before anything is set aside; None if it may."""

    async def answer(self, call: Call) -> Answer:
        """Begins the answer to a call.

        Raises:
            CannotAnswer: there is none.
        """

    async def close(self) -> None:
        """Lets go of what it holds."""


async def whole(data: bytes) -> AsyncGenerator[bytes, None]:
    """Yields bytes at once."""
    yield data

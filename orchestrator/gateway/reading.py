"""Reads usage, served model and fingerprint off an answer while it passes, streamed or not. Pure.

Nothing here changes a byte. A usage that is absent, malformed or impossible counts as not reported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from orchestrator.core.errors import DocumentError
from orchestrator.core.strictjson import MAX_BYTES, parse_json
from orchestrator.gateway.sse import EventReader, EventTooLarge
from orchestrator.model.usage import Api, Usage

MAX_TOKENS = 2**40


@dataclass(frozen=True, slots=True)
class Reading:
    """What an answer said of itself."""

    usage: Usage | None
    model: str | None
    fingerprint: str | None


class AnswerReader:
    """Follows one answer. `feed` takes its bytes in order, `reading` tells what was found so far."""

    def __init__(self, api: Api, *, events: bool, max_bytes: int) -> None:
        self._api = api
        self._streamed = events
        self._events = EventReader() if events else None
        self._whole = bytearray()
        self._max_bytes = min(max_bytes, MAX_BYTES)
        self._usage: dict[str, object] = {}
        self._final = False
        self._model: str | None = None
        self._fingerprint: str | None = None

    def feed(self, piece: bytes) -> None:
        """Takes the next bytes."""
        if self._events is None:
            if len(self._whole) <= self._max_bytes:
                self._whole += piece
            return
        try:
            for name, data in self._events.feed(piece):
                self._final = self._final or data == b"[DONE]"
                if _may_matter(self._api, name, data, known=self._model is not None):
                    self._take(data)
        except EventTooLarge:
            self._events = None
            self._max_bytes = -1

    def reading(self) -> Reading:
        """Returns what the answer said; call it once, after the last bytes."""
        if self._whole:
            self._take(bytes(self._whole))
        usage = _USAGE[self._api](self._usage) if self._final else None
        return Reading(usage, self._model, self._fingerprint)

    def _take(self, data: bytes) -> None:
        try:
            found = parse_json(data, where="answer", max_bytes=max(self._max_bytes, 1))
        except DocumentError:
            return
        if not isinstance(found, dict):
            return
        kind = found.get("type")
        # Messages and Responses wrap the object in their events; the rest is the object itself.
        inner = found.get("message" if kind == "message_start" else "response")
        part = inner if isinstance(inner, dict) else found
        self._model = _text(part.get("model")) or self._model
        self._fingerprint = _text(part.get("system_fingerprint")) or self._fingerprint
        usage = part.get("usage")
        if isinstance(usage, dict):
            self._usage |= usage
            self._final = self._final or not self._streamed or _ends(self._api, found)


def _text(value: object) -> str | None:
    return value[:200] if isinstance(value, str) and value else None


def _ends(api: Api, event: dict[str, object]) -> bool:
    """Tells whether an event is the one whose usage is final; earlier ones count a part."""
    if api == "messages":
        delta = event.get("delta")
        return isinstance(delta, dict) and delta.get("stop_reason") is not None
    if api == "responses":
        return event.get("type") in {
            "response.completed",
            "response.incomplete",
            "response.failed",
        }
    return event.get("choices") == []


def _may_matter(api: Api, name: bytes, data: bytes, *, known: bool) -> bool:
    """Tells whether an event can carry usage or identity, so that the rest is not parsed."""
    if data == b"[DONE]":
        return False
    if api == "messages":
        return name in {b"message_start", b"message_delta"} or (not name and b'"usage"' in data)
    if api == "responses":
        return name in {
            b"response.created",
            b"response.completed",
            b"response.incomplete",
            b"response.failed",
        } or (not name and b'"usage"' in data)
    return not known or b'"usage"' in data


def _count(usage: Mapping[str, object], *path: str) -> int:
    """Returns a token count; 0 if it is absent.

    Raises:
        ValueError: it is there and not a count.
    """
    value: object = usage
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    if value is None:
        return 0
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_TOKENS:
        raise ValueError(path[-1])
    return value


def _messages(usage: dict[str, object]) -> Usage | None:
    try:
        long_lived = _count(usage, "cache_creation", "ephemeral_1h_input_tokens")
        written = _count(usage, "cache_creation_input_tokens")
        if "output_tokens" not in usage or "input_tokens" not in usage or long_lived > written:
            return None
        return Usage(
            input=_count(usage, "input_tokens"),
            cache_read=_count(usage, "cache_read_input_tokens"),
            cache_write=written - long_lived,
            cache_write_1h=long_lived,
            output=_count(usage, "output_tokens"),
            reasoning=_count(usage, "output_tokens_details", "thinking_tokens"),
        )
    except ValueError:
        return None


def _openai(
    usage: dict[str, object], into: str, out: str, *, needs_out: bool = True
) -> Usage | None:
    try:
        read = _count(usage, f"{into}_details", "cached_tokens")
        written = _count(usage, f"{into}_details", "cache_write_tokens")
        total = _count(usage, into)
        if into not in usage or (needs_out and out not in usage) or read + written > total:
            return None
        return Usage(
            input=total - read - written,
            cache_read=read,
            cache_write=written,
            output=_count(usage, out),
            reasoning=_count(usage, f"{out}_details", "reasoning_tokens"),
        )
    except ValueError:
        return None


_USAGE: dict[Api, Callable[[dict[str, object]], Usage | None]] = {
    "messages": _messages,
    "responses": lambda usage: _openai(usage, "input_tokens", "output_tokens"),
    "chat": lambda usage: _openai(usage, "prompt_tokens", "completion_tokens"),
    "embeddings": lambda usage: _openai(usage, "prompt_tokens", "none", needs_out=False),
}

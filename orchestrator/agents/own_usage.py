"""Reads what an agent says that it used off its own events. Pure; a figure to compare, never to charge.

Knows the events of codex (`turn.completed`), Claude Code (`result`) and opencode (`step_finish`). The output
may be a mixture with anything else, also with lies: a line that is not such an event is passed over.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from orchestrator.core.errors import DocumentError
from orchestrator.core.strictjson import parse_json
from orchestrator.model.spending import OwnUsage
from orchestrator.model.usage import Usage

Event = dict[str, object]
Words = Literal["codex", "claude_code", "opencode"]
MAX_EVENTS = 10_000
MAX_LINE_BYTES = 1024 * 1024
# More is a lie, and sums over thousands of trials must stay numbers that JSON can hold.
MAX_TOKENS = 2**40


def own_usage(output: bytes) -> OwnUsage | None:
    """Returns the sum of an agent's own figures; None where it gives none, impossible
    ones, or two agents' words are mixed.
    """
    sums: dict[Words, Usage] = {}
    left = MAX_EVENTS
    for line in output.splitlines():
        if not line.startswith(b"{") or b'"type"' not in line or left == 0:
            continue
        left -= 1
        event = _event(line)
        reader = _READERS.get(str(event.get("type"))) if event else None
        if event is None or reader is None:
            continue
        words, read, adds = reader
        found = read(event)
        if found is not None:
            sums[words] = sums[words].plus(found) if adds and words in sums else found
    if len(sums) != 1:
        return None
    ((words, usage),) = sums.items()
    if max(usage.model_dump().values()) > MAX_TOKENS:
        return None
    return OwnUsage(words=words, usage=usage)


def _event(line: bytes) -> Event | None:
    try:
        value = parse_json(line, where="event", max_bytes=MAX_LINE_BYTES)
    except DocumentError:
        return None
    return value if isinstance(value, dict) else None


def _part(event: object, name: str) -> Event:
    value = event.get(name) if isinstance(event, dict) else None
    return value if isinstance(value, dict) else {}


def _count(part: Event, *names: str) -> int:
    """Returns the first of the counts that is there, else 0."""
    for name in names:
        value = part.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_TOKENS:
            return value
    return 0


def _codex(event: Event) -> Usage | None:
    """The classes overlap in its events: cached tokens are a part of the input."""
    usage = _part(event, "usage")
    if not usage:
        return None
    read = _count(usage, "cached_input_tokens")
    written = _count(usage, "cache_write_input_tokens")
    return Usage(
        input=max(0, _count(usage, "input_tokens") - read - written),
        cache_read=read,
        cache_write=written,
        output=_count(usage, "output_tokens"),
        reasoning=_count(usage, "reasoning_output_tokens"),
    )


def _claude_code(event: Event) -> Usage | None:
    """`modelUsage` counts every model that was called, `usage` the main one only."""
    models = [part for part in _part(event, "modelUsage").values() if isinstance(part, dict)]
    parts = models or ([_part(event, "usage")] if _part(event, "usage") else [])
    if not parts:
        return None
    total = Usage()
    for part in parts:
        total = total.plus(
            Usage(
                input=_count(part, "inputTokens", "input_tokens"),
                cache_read=_count(part, "cacheReadInputTokens", "cache_read_input_tokens"),
                cache_write=_count(part, "cacheCreationInputTokens", "cache_creation_input_tokens"),
                output=_count(part, "outputTokens", "output_tokens"),
            )
        )
    return total


def _opencode(event: Event) -> Usage | None:
    tokens = _part(_part(event, "part"), "tokens")
    if not tokens:
        return None
    cache = _part(tokens, "cache")
    return Usage(
        input=_count(tokens, "input"),
        cache_read=_count(cache, "read"),
        cache_write=_count(cache, "write"),
        output=_count(tokens, "output"),
        reasoning=_count(tokens, "reasoning"),
    )


# By the event's type: whose it is, how it is read, and whether several add up (else the last one counts).
_READERS: dict[str, tuple[Words, Callable[[Event], Usage | None], bool]] = {
    "turn.completed": ("codex", _codex, True),
    "result": ("claude_code", _claude_code, False),
    "step_finish": ("opencode", _opencode, True),
}

"""The normal form of a request: what must be equal for a recorded answer to fit. Pure.

Drops fields that name the client and replaces what differs between two honest runs of one trial: ids,
dates, durations, process ids, kernel release, run tokens. docs/adr/0033 lists why each is there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

DROPPED = frozenset(
    {
        "metadata",
        "client_metadata",
        "prompt_cache_key",
        "safety_identifier",
        "user",
    }
)

_MOVING: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), to)
    for pattern, to in (
        (r"\bmtr-[a-z]+-[a-z2-7]{32}\b", "<token>"),
        (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "<uuid>"),
        (r"\b20\d\d-\d\d-\d\d([T ]\d\d:\d\d(:\d\d)?([.,]\d+)?(Z|[+-]\d\d:?\d\d)?)?", "<date>"),
        (
            r"\b(Mon|Tue|Wed|Thu|Fri|Sat|Sun)\w*,? +(\d+ )?(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\w* +\d+( \d\d:\d\d:\d\d)?( [A-Z]{3,4})?( 20\d\d)?",
            "<date>",
        ),
        (r"\b(toolu|call|msg|resp|rs|fc|ctc|fco|ctco|item|chatcmpl)[_-][A-Za-z0-9_-]{6,}", "<id>"),
        (r"Chunk ID: [0-9a-f]+", "Chunk ID: <id>"),
        (r"\b0x[0-9a-f]{6,16}\b", "<address>"),
        (r"\bpid[ =:]+\d+", "pid <n>"),
        (r"\b(Linux|Darwin) \d+\.\d+[\w.+-]*", r"\1 <release>"),
        (
            r"\b(in|Wall time:|took|real|user|sys)(\s+)\d+m?\d*[.,]?\d*\s?(ms|s|secs?|seconds)\b",
            r"\1\2<t>",
        ),
        (r"\b\d+[.,]\d+\s?(ms|s|secs?|seconds)\b", "<t>"),
        (r"(?<=/tmp/)[\w.-]*[A-Za-z0-9_]{8}\b", "<name>"),
    )
)


def normal_form(body: object) -> object:
    """Returns the normal form of a parsed request."""
    if not isinstance(body, Mapping):
        return _walk(body, in_conversation=False)
    return {
        name: _walk(value, in_conversation=name in {"input", "messages"})
        for name, value in body.items()
        if name not in DROPPED
    }


def normal_text(text: str) -> str:
    """Returns a text with everything that moves between runs replaced by what it is."""
    for pattern, to in _MOVING:
        text = pattern.sub(to, text)
    return text


def _walk(value: object, *, in_conversation: bool) -> object:
    if isinstance(value, str):
        return normal_text(value)
    if isinstance(value, Mapping):
        return {
            name: _walk(item, in_conversation=in_conversation)
            for name, item in value.items()
            if not (in_conversation and name == "id")
        }
    if isinstance(value, list):
        return [_walk(item, in_conversation=in_conversation) for item in value]
    return value


def _plain(value: object) -> str:
    """One unambiguous text of a JSON value; numbers as Python writes them, so no number is refused."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def first_difference(recorded: object, found: object, pointer: str = "") -> tuple[str, str, str]:
    """Returns where two normal forms differ first (a JSON pointer, RFC 6901), and both sides in short."""
    if isinstance(recorded, Mapping) and isinstance(found, Mapping):
        for name in sorted({*recorded, *found}):
            if recorded.get(name) != found.get(name):
                token = str(name).replace("~", "~0").replace("/", "~1")
                return first_difference(recorded.get(name), found.get(name), f"{pointer}/{token}")
    if isinstance(recorded, list) and isinstance(found, list):
        for index, (left, right) in enumerate(zip(recorded, found, strict=False)):
            if left != right:
                return first_difference(left, right, f"{pointer}/{index}")
        if len(recorded) != len(found):
            return pointer, f"{len(recorded)} items", f"{len(found)} items"
    if isinstance(recorded, str) and isinstance(found, str):
        return pointer, *_around(recorded, found)
    return pointer, _plain(recorded)[:200], _plain(found)[:200]


def _around(left: str, right: str) -> tuple[str, str]:
    """Returns both texts from a little before their first difference."""
    at = next(
        (i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b),
        min(len(left), len(right)),
    )
    begin = max(0, at - 40)
    return left[begin : at + 80], right[begin : at + 80]

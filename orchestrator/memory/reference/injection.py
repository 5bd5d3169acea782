"""Marks text of history that reads like an order to the reading model. Pure; a label, never a verdict.

A memory with this label is held for a person; history as such stays data and is stored unchanged.
"""

from __future__ import annotations

import re
from typing import Final

INSTRUCTION_LIKE: Final = "instruction_like"

_ORDERS: Final = re.compile(
    r"(?i)\b(?:ignore|disregard|forget|override)\s+(?:(?:all|any|the|your|my|every|previous|prior|above|earlier|of)\s+){1,4}"
    r"(?:instructions?|prompts?|messages?|guidelines)\b"
    r"|\byou\s+are\s+now\s+(?:a|an|in|the|dan)\b"
    r"|\b(?:new|updated)\s+system\s+(?:prompt|message|instructions?)\b"
    r"|\b(?:reveal|print|repeat|show)\s+(?:me\s+)?(?:your|the)\s+(?:hidden\s+|system\s+)?(?:prompt|instructions)\b"
    r"|\b(?:do\s+not|don't|never)\s+(?:tell|inform|mention\s+(?:this|it)\s+to)\s+(?:the\s+)?(?:user|reviewer|operator)\b"
    r"|<\s*/?\s*(?:system|memory|instructions?|tool_use|function_calls)\b"
    r"|\[/?INST\]|<\|im_start\|>|<\|system\|>"
    r"|^\s{0,8}(?:system|assistant)\s{0,4}:\s",
    re.MULTILINE,
)
# Enough for any message; what hides behind it is cut by every later stage as well.
_LOOKED_AT_CHARS: Final = 65_536


def labels_of(text: str) -> tuple[str, ...]:
    """Returns the labels that a text deserves."""
    return (INSTRUCTION_LIKE,) if _ORDERS.search(text[:_LOOKED_AT_CHARS]) else ()

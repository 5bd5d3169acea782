"""Reads a document that somebody signed: one text, one meaning, and nothing in it that a reader cannot see.

Stricter than `core.strictjson`: RFC 8785 bytes only, no fractions, at most 16 levels, text in NFC without
control, format, private or unassigned characters. Pure.
"""

from __future__ import annotations

import unicodedata

from orchestrator.core.canonical import canonical_bytes
from orchestrator.core.errors import ApprovalRefused, DocumentError
from orchestrator.core.strictjson import parse_json

MAX_SIGNED_BYTES = 256 * 1024
MAX_LEVELS = 16
_HIDDEN = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
HINT = "have the document made again by memtrial, and sign it again"


def read_signed(data: bytes, *, where: str) -> dict[str, object]:
    """Returns the object that the bytes are the one encoding of.

    Args:
        data: the signed bytes.
        where: name of the document for the error text.

    Raises:
        ApprovalRefused: anything else; `reference` says what.
    """
    try:
        value = parse_json(data, where=where, max_bytes=MAX_SIGNED_BYTES)
    except DocumentError as error:
        raise ApprovalRefused(error.reference, error.message, hint=HINT) from error
    _walk(value, where, 1)
    if canonical_bytes(value) != data:
        raise _refuse(
            where, "json-not-canonical", "RFC 8785 bytes", "other spacing, order or escapes"
        )
    if not isinstance(value, dict):
        raise _refuse(where, "json-not-an-object", "an object", type(value).__name__)
    return value


def _walk(value: object, where: str, level: int) -> None:
    if isinstance(value, float):
        raise _refuse(where, "json-fraction", "whole numbers", repr(value))
    if isinstance(value, str):
        _check_text(value, where)
    elif isinstance(value, dict | list):
        if level > MAX_LEVELS:
            raise _refuse(where, "json-too-deep", f"at most {MAX_LEVELS} levels", "more")
        for item in (*value, *value.values()) if isinstance(value, dict) else value:
            _walk(item, where, level + 1)


def _check_text(text: str, where: str) -> None:
    if not unicodedata.is_normalized("NFC", text):
        raise _refuse(where, "json-not-nfc", "text in NFC", ascii(text)[:80])
    hidden = next((c for c in text if unicodedata.category(c) in _HIDDEN), None)
    if hidden is not None:
        raise _refuse(where, "json-hidden-character", "visible characters", ascii(hidden))


def _refuse(where: str, reference: str, expected: str, found: str) -> ApprovalRefused:
    return ApprovalRefused(reference, f"{where}: expected {expected}, found {found}", hint=HINT)

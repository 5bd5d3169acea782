"""The only door for JSON from outside: strict I-JSON (RFC 7493) with bounds.

`json` and pydantic silently keep the last of two equal keys and accept NaN; a plan whose reviewer saw
the first key would then run with the second. Pure: bytes in, value out, `DocumentError` otherwise.
"""

from __future__ import annotations

import json
import re

from orchestrator.core.errors import DocumentError

MAX_BYTES = 16 * 1024 * 1024
MAX_DEPTH = 64
MAX_SAFE_INTEGER = 2**53 - 1
# A string (also one that never ends) or a bracket. Possessive, so that no text makes it go back.
_DEPTH_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)


def parse_json(data: bytes, *, where: str, max_bytes: int = MAX_BYTES) -> object:
    """Parses one JSON text.

    Args:
        data: the exact bytes.
        where: name of the document for the error text.
        max_bytes: upper bound of the size, in bytes.

    Raises:
        DocumentError: not UTF-8, a byte order mark, too large, too deep, a duplicate key, NaN or
            Infinity, an integer outside +-(2^53 - 1), a lone surrogate, or trailing bytes.
    """
    if len(data) > max_bytes:
        raise _refuse(
            where, "json-too-large", f"expected at most {max_bytes} bytes, found {len(data)}"
        )
    if data.startswith(b"\xef\xbb\xbf"):
        raise _refuse(
            where, "json-byte-order-mark", "expected plain UTF-8, found a byte order mark"
        )
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _refuse(
            where, "json-not-utf8", f"expected UTF-8, found {error.reason} at byte {error.start}"
        ) from error
    _check_depth(text, where)
    try:
        value: object = json.JSONDecoder(
            object_pairs_hook=lambda pairs: _unique(pairs, where),
            parse_constant=lambda name: _reject_constant(name, where),
            parse_int=lambda digits: _bounded_int(digits, where),
        ).decode(text)
    except json.JSONDecodeError as error:
        raise _refuse(
            where,
            "json-malformed",
            f"expected JSON, found {error.msg} at line {error.lineno}, column {error.colno}",
        ) from error
    try:
        text.encode("utf-8")
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError as error:
        raise _refuse(
            where, "json-lone-surrogate", "expected valid Unicode, found a lone surrogate escape"
        ) from error
    return value


def _refuse(where: str, reference: str, message: str) -> DocumentError:
    return DocumentError(
        reference, f"{where}: {message}", hint="mend the document; the schemas are in schemas/"
    )


def _check_depth(text: str, where: str) -> None:
    """Bounds nesting before the recursive parser sees the text; strings are skipped whole."""
    depth = 0
    for token in _DEPTH_TOKEN.finditer(text):
        found = token[0]
        if found in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise _refuse(
                    where, "json-too-deep", f"expected at most {MAX_DEPTH} levels, found more"
                )
        elif found in "]}":
            depth -= 1


def _unique(pairs: list[tuple[str, object]], where: str) -> dict[str, object]:
    result: dict[str, object] = {}
    for key, value in pairs:
        if key in result:
            raise _refuse(
                where, "json-duplicate-key", f"expected each key once, found {key!r} twice"
            )
        result[key] = value
    return result


def _reject_constant(name: str, where: str) -> object:
    raise _refuse(where, "json-not-a-number", f"expected a finite number, found {name}")


def _bounded_int(digits: str, where: str) -> int:
    # The length test comes first: int() of a huge digit string is quadratic.
    if len(digits) > 17 or abs(int(digits)) > MAX_SAFE_INTEGER:
        raise _refuse(
            where,
            "json-integer-too-large",
            f"expected an integer within +-(2^53 - 1), found {digits[:24]}",
        )
    return int(digits)

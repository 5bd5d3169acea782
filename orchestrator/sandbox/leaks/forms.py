"""From one literal to every encoded form that the scan looks for, one nesting of two encodings included.

Pure. Base64 is matched by its core: the characters that depend on the literal alone, at each of the three
alignments (RFC 4648 section 4: three bytes give four characters). White space is taken out of forms and
of what is searched, so line breaks and indentation hide nothing.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from urllib.parse import quote, quote_plus

# NUL counts as white space: what is left of UTF-16 of an ASCII text is the text.
BLANKS = b" \t\r\n\v\f\0"
MIN_FORM_BYTES = 10
MAX_LITERAL_BYTES = 240

Encoder = Callable[[bytes], bytes]


@dataclass(frozen=True, slots=True)
class Form:
    """One form of a literal without white space. `exact` forms are matched with their case."""

    encoding: str
    data: bytes
    exact: bool


def squeeze(data: bytes) -> bytes:
    """Returns the bytes without white space and NUL."""
    return data.translate(None, BLANKS)


def base64_core(literal: bytes, alignment: int, *, url: bool = False) -> bytes:
    """Returns what base64 makes of the literal wherever it starts `alignment` bytes into a group."""
    encode = base64.urlsafe_b64encode if url else base64.b64encode
    text = encode(bytes(alignment) + literal)
    start = (0, 2, 3)[alignment]
    end = len(text) - (0, 3, 2)[(alignment + len(literal)) % 3]
    return text[start:end]


def _utf16(encoding: str) -> Encoder:
    return lambda raw: raw.decode("utf-8", "replace").encode(encoding)


def _json(*, ascii_only: bool) -> Encoder:
    return lambda raw: json.dumps(raw.decode("utf-8", "replace"), ensure_ascii=ascii_only)[
        1:-1
    ].encode()


def _base64(alignment: int, *, url: bool) -> Encoder:
    return lambda raw: base64_core(raw, alignment, url=url)


ENCODERS: dict[str, Encoder] = {
    "plain": lambda raw: raw,
    "hex": lambda raw: raw.hex().encode(),
    "url": lambda raw: quote(raw, safe="").encode(),
    "url-path": lambda raw: quote(raw, safe="/:@!$&'()*,;=~").encode(),
    "url-form": lambda raw: quote_plus(raw).encode(),
    "url-all": lambda raw: b"%" + raw.hex("%").encode(),
    "reversed": lambda raw: raw[::-1],
    "json": _json(ascii_only=True),
    "json-utf8": _json(ascii_only=False),
    "utf-16-le": _utf16("utf-16-le"),
    "utf-16-be": _utf16("utf-16-be"),
    **{f"base64+{shift}": _base64(shift, url=False) for shift in range(3)},
    **{f"base64url+{shift}": _base64(shift, url=True) for shift in range(3)},
}
# The inner half of a nesting is a whole encoded value, so of base64 only alignment 0 stands there.
INNER = ("hex", "url", "url-all", "reversed", "json", "utf-16-le", "base64+0", "base64url+0")


def forms(literal: bytes) -> Iterator[Form]:
    """Yields every form of a literal, plain first; forms too short to be telling are left out."""
    literal = literal[:MAX_LITERAL_BYTES]
    seen: set[tuple[bytes, bool]] = set()
    for encoding, encoded in _encoded(literal):
        exact = encoding.startswith("base64")
        data = squeeze(encoded) if exact else squeeze(encoded).lower()
        if len(data) >= MIN_FORM_BYTES and (data, exact) not in seen:
            seen.add((data, exact))
            yield Form(encoding, data, exact)


def _encoded(literal: bytes) -> Iterator[tuple[str, bytes]]:
    for name, encode in ENCODERS.items():
        yield name, encode(literal)
    for case, text in (("lower", literal.lower()), ("upper", literal.upper())):
        for name, encode in ENCODERS.items():
            yield f"{name}({case})", encode(text)
    for inner in INNER:
        # Inside a longer value the last group of an inner base64 goes on: only its core is certain.
        middle = ENCODERS[inner](literal)
        for outer, encode in ENCODERS.items():
            if outer != "plain":
                yield f"{outer}({inner})", encode(middle)

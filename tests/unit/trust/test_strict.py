"""Promise: what is signed has one encoding and one reading; every other text is refused before its fields are."""

from __future__ import annotations

import pytest

from orchestrator.core.errors import ApprovalRefused
from orchestrator.trust.strict import MAX_SIGNED_BYTES, read_signed

SOUND = b'{"cap":1,"id":"a"}'
HOSTILE = {
    "duplicate key": (b'{"cap":1,"cap":1000000,"id":"a"}', "json-duplicate-key"),
    "duplicate key by escape": (b'{"cap":1,"c\\u0061p":9,"id":"a"}', "json-duplicate-key"),
    "NaN": (b'{"cap":NaN,"id":"a"}', "json-not-a-number"),
    "exponent": (b'{"cap":1e3,"id":"a"}', "json-fraction"),
    "fraction": (b'{"cap":1.0,"id":"a"}', "json-fraction"),
    "huge fraction": (b'{"cap":1e999,"id":"a"}', "json-fraction"),
    "2^53": (b'{"cap":9007199254740992,"id":"a"}', "json-integer-too-large"),
    "5,000 digits": (b'{"cap":' + b"9" * 5000 + b',"id":"a"}', "json-integer-too-large"),
    "minus zero": (b'{"cap":-0,"id":"a"}', "json-not-canonical"),
    "not NFC": ('{"cap":1,"id":"e\u0301"}'.encode(), "json-not-nfc"),
    "right-to-left override": ('{"cap":1,"id":"a\u202eb"}'.encode(), "json-hidden-character"),
    "zero width": ('{"cap":1,"id":"a\u200bb"}'.encode(), "json-hidden-character"),
    "NUL": (b'{"cap":1,"id":"a\\u0000"}', "json-hidden-character"),
    "line separator": ('{"cap":1,"id":"a\u2028"}'.encode(), "json-hidden-character"),
    "private use": ('{"cap":1,"id":"\ue000"}'.encode(), "json-hidden-character"),
    "hidden in a key": ('{"cap\u200b":1,"id":"a"}'.encode(), "json-hidden-character"),
    "lone surrogate": (b'{"cap":1,"id":"\\ud800"}', "json-lone-surrogate"),
    "byte order mark": (b"\xef\xbb\xbf" + SOUND, "json-byte-order-mark"),
    "UTF-16": (SOUND.decode().encode("utf-16"), "json-not-utf8"),
    "overlong UTF-8": (b'{"cap":1,"id":"\xc0\xaf"}', "json-not-utf8"),
    "two documents": (SOUND * 2, "json-malformed"),
    "white space": (b'{ "cap":1,"id":"a"}', "json-not-canonical"),
    "line end": (SOUND + b"\n", "json-not-canonical"),
    "order of keys": (b'{"id":"a","cap":1}', "json-not-canonical"),
    "needless escape": (b'{"cap":1,"id":"\\u0061"}', "json-not-canonical"),
    "depth 17": (b'{"a":' * 17 + b"1" + b"}" * 17, "json-too-deep"),
    "depth 100,000": (b"[" * 100_000, "json-too-deep"),
    "5 MB": (b'{"a":"' + b"x" * 5_000_000 + b'"}', "json-too-large"),
    "no object": (b"[1]", "json-not-an-object"),
    "nothing": (b"", "json-malformed"),
}


@pytest.mark.parametrize(("data", "reference"), HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_text_is_refused_by_name(data, reference):
    with pytest.raises(ApprovalRefused) as refused:
        read_signed(data, where="approval")
    assert refused.value.reference == reference


def test_the_one_encoding_is_read():
    assert read_signed(SOUND, where="approval") == {"cap": 1, "id": "a"}
    assert read_signed(b'{"a":' * 16 + b"1" + b"}" * 16, where="approval")
    assert len(SOUND) < MAX_SIGNED_BYTES

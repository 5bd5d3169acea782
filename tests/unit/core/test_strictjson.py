"""Promise: no JSON that two readers could read differently passes the door."""

import pytest

from orchestrator.core.errors import DocumentError
from orchestrator.core.strictjson import parse_json


@pytest.mark.parametrize(
    ("data", "reference"),
    [
        pytest.param(b'{"a":1,"a":2}', "json-duplicate-key", id="duplicate-key"),
        pytest.param(b'{"x":{"a":1,"a":1}}', "json-duplicate-key", id="nested-duplicate-key"),
        pytest.param(b'{"a":NaN}', "json-not-a-number", id="nan"),
        pytest.param(b'{"a":-Infinity}', "json-not-a-number", id="infinity"),
        pytest.param(b'{"a":9007199254740992}', "json-integer-too-large", id="unsafe-integer"),
        pytest.param(b'{"a":' + b"9" * 5000 + b"}", "json-integer-too-large", id="huge-integer"),
        pytest.param(b"\xef\xbb\xbf{}", "json-byte-order-mark", id="byte-order-mark"),
        pytest.param(b'{"a":"\xff"}', "json-not-utf8", id="not-utf8"),
        pytest.param(b'{"a":"\\ud800"}', "json-lone-surrogate", id="lone-surrogate"),
        pytest.param(b"[" * 5000 + b"]" * 5000, "json-too-deep", id="too-deep"),
        pytest.param(b"{} {}", "json-malformed", id="trailing-bytes"),
        pytest.param(b"{'a':1}", "json-malformed", id="single-quotes"),
        pytest.param(b" " * 200, "json-too-large", id="too-large"),
    ],
)
def test_ambiguous_or_hostile_json_is_refused_by_name(data, reference):
    with pytest.raises(DocumentError) as refused:
        parse_json(
            data, where="document", max_bytes=100 if reference == "json-too-large" else 20_000
        )
    assert refused.value.reference == reference


def test_plain_json_passes():
    assert parse_json(b'{"a":[1,2.5,null,true,"x"],"b":{}}', where="d") == {
        "a": [1, 2.5, None, True, "x"],
        "b": {},
    }


def test_brackets_inside_strings_are_not_depth():
    assert parse_json(b'{"a":"' + b"[" * 500 + b'\\"["}', where="d") == {"a": "[" * 500 + '"['}

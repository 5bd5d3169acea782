"""Promise: the quick way to canonical bytes gives exactly what the RFC 8785 library gives, or gives way to it."""

from __future__ import annotations

import json
from enum import StrEnum

import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.core.canonical import canonical_bytes

TEXTS = st.text(st.characters(codec="utf-8"), max_size=8)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


class Word(StrEnum):
    """A text that is not quite a text."""

    ONE = "one"


@settings(max_examples=300)
@given(VALUES)
def test_every_value_has_the_bytes_that_the_library_gives(value):
    assert canonical_bytes(value) == rfc8785.dumps(value)


@pytest.mark.parametrize("char", [chr(n) for n in (*range(0x80), 0x2028, 0xD7FF, 0xE000, 0x1F600)])
def test_every_escape_is_the_one_of_the_rfc(char):
    assert canonical_bytes({"text": char}) == rfc8785.dumps({"text": char})
    assert json.JSONDecoder().decode(canonical_bytes([char]).decode()) == [char]


def test_keys_beyond_the_basic_plane_are_sorted_by_utf16_units():
    # U+1F600 begins with the unit D83D and so stands before U+FB33; by code point it stands behind.
    assert canonical_bytes({"\ufb33": 1, "\U0001f600": 2}) == '{"\U0001f600":2,"\ufb33":1}'.encode()


def test_fractions_are_written_as_the_rfc_writes_them():
    # RFC 8785, 3.2.2.3 and its appendix B: 1e30 and 4.50, 2e-3.
    assert canonical_bytes([1e30, 4.50, 2e-3, 1e21, 1e20, -0.0]) == (
        b"[1e+30,4.5,0.002,1e+21,100000000000000000000,0]"
    )


def test_a_text_of_another_type_is_a_text():
    assert canonical_bytes({Word.ONE: [Word.ONE]}) == b'{"one":["one"]}'


@pytest.mark.parametrize(
    "value", [2**53, -(2**53), float("nan"), float("inf"), "\ud800", {"\ud800": 1}, {1: 2}, {1, 2}]
)
def test_what_the_rfc_refuses_is_refused(value):
    with pytest.raises(ValueError, match=r"."):
        canonical_bytes([value])

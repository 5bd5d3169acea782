"""Promise: what a signature covers says its own lengths, and base64 has one form."""

import pytest

from orchestrator.core.errors import DocumentError
from orchestrator.core.pae import from_base64, pre_authentication_encoding, to_base64


def test_the_encoding_is_the_published_one():
    # The example of DSSE's own protocol text.
    assert pre_authentication_encoding("http://example.com/HelloWorld", b"hello world") == (
        b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    )


def test_lengths_count_bytes_and_not_letters():
    assert pre_authentication_encoding("ä", b"") == b"DSSEv1 2 \xc3\xa4 0 "


@pytest.mark.parametrize("data", [b"", b"a", b"ab", b"abc", bytes(range(256))])
def test_what_is_encoded_is_decoded(data):
    assert from_base64(to_base64(data), where="x") == data


@pytest.mark.parametrize("text", ["YQ", "YR==", "YQ==\n", " YQ==", "-_-_", "YQ==YQ==", "Y", "ä"])
def test_any_other_form_is_refused(text):
    with pytest.raises(DocumentError) as refused:
        from_base64(text, where="x")
    assert refused.value.reference == "base64-malformed"

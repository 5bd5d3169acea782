"""Promise: an envelope is its own canonical bytes, signed by the one key, of the one type; or it is refused."""

from __future__ import annotations

import base64
import json

import pytest
from securesystemslib.dsse import Envelope as OtherEnvelope

from orchestrator.attest.dsse import open_envelope, sign_payload
from orchestrator.core.errors import MemtrialError
from orchestrator.core.keys import SigningKey
from orchestrator.core.pae import pre_authentication_encoding

PAYLOAD = b'{"a":1}'


@pytest.fixture(scope="module")
def key() -> SigningKey:
    return SigningKey.generate()


def test_the_signed_bytes_are_those_of_the_specification():
    assert (
        pre_authentication_encoding("http://example.com/HelloWorld", b"hello world")
        == b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    )


def test_what_was_signed_comes_back(key):
    assert open_envelope(sign_payload(PAYLOAD, key), key.public, where="x") == PAYLOAD


def test_another_library_reads_the_same_payload_and_signed_bytes(key):
    data = sign_payload(PAYLOAD, key)
    other = OtherEnvelope.from_dict(json.loads(data))
    assert other.payload == PAYLOAD
    key.public.verify(
        base64.b64decode(json.loads(data)["signatures"][0]["sig"]), other.pae(), where="x"
    )


def test_no_changed_byte_passes(key):
    data = sign_payload(PAYLOAD, key)
    for place in range(len(data)):
        for bit in (1, 4, 32):
            changed = bytearray(data)
            changed[place] ^= bit
            with pytest.raises(MemtrialError):
                open_envelope(bytes(changed), key.public, where="x")


def _changed(data: bytes, change) -> bytes:
    envelope = json.loads(data)
    change(envelope)
    return json.dumps(envelope, separators=(",", ":"), sort_keys=True).encode()


CHANGES = {
    "no signature": lambda e: e.update(signatures=[]),
    "two signatures": lambda e: e.update(signatures=e["signatures"] * 2),
    "unknown field": lambda e: e.update(more=1),
    "url-safe base64": lambda e: e.update(payload=e["payload"].replace("=", "") + "-_"),
    "unpadded base64": lambda e: e.update(payload=e["payload"].rstrip("=")),
    "blank in base64": lambda e: e.update(payload=e["payload"][:4] + "\n" + e["payload"][4:]),
    "upper case keyid": lambda e: e["signatures"][0].update(keyid="A" * 64),
    "empty signature": lambda e: e["signatures"][0].update(sig=""),
    "payload of a number": lambda e: e.update(payload=1),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_other_forms_are_refused(key, change):
    with pytest.raises(MemtrialError):
        open_envelope(_changed(sign_payload(PAYLOAD, key), change), key.public, where="x")


def test_a_duplicate_key_and_other_spacing_are_refused(key):
    data = sign_payload(PAYLOAD, key)
    for changed in (
        data.replace(b"{", b'{"payload":"AAAA",', 1),
        data + b"\n",
        data.replace(b":", b": ", 1),
    ):
        with pytest.raises(MemtrialError):
            open_envelope(changed, key.public, where="x")


def test_the_right_bytes_under_another_type_or_by_another_key_are_refused(key):
    with pytest.raises(MemtrialError):
        open_envelope(
            sign_payload(PAYLOAD, key, payload_type="application/json"), key.public, where="x"
        )
    with pytest.raises(MemtrialError):
        open_envelope(sign_payload(PAYLOAD, SigningKey.generate()), key.public, where="x")

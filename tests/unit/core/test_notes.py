"""Promise: a checkpoint has one form, and only the ledger's own key under the ledger's own name signs it."""

from __future__ import annotations

import base64

import pytest

from orchestrator.core.errors import DocumentError, IntegrityError, MemtrialError
from orchestrator.core.keys import SigningKey
from orchestrator.core.notes import Checkpoint, key_hash, parse_checkpoint, sign_checkpoint

CHECKPOINT = Checkpoint("memtrial.local/run", 144, bytes(range(32)))


@pytest.fixture(scope="module")
def key() -> SigningKey:
    return SigningKey.generate()


def test_what_was_signed_is_read_back_and_verifies(key):
    signed = parse_checkpoint(sign_checkpoint(CHECKPOINT, key), where="note")
    assert signed.checkpoint == CHECKPOINT
    signed.verify(key.public, where="note")


def test_the_form_is_the_published_one(key):
    lines = sign_checkpoint(CHECKPOINT, key).decode().split("\n")
    assert lines[:4] == [
        "memtrial.local/run",
        "144",
        "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
        "",
    ]
    assert lines[4].startswith("\u2014 memtrial.local/run ")
    assert len(key_hash(CHECKPOINT.origin, key.public)) == 4


def test_another_key_or_another_name_is_refused(key):
    note = sign_checkpoint(CHECKPOINT, key)
    with pytest.raises(IntegrityError):
        parse_checkpoint(note, where="note").verify(SigningKey.generate().public, where="note")
    renamed = note.replace(b"\xe2\x80\x94 memtrial.local/run", b"\xe2\x80\x94 memtrial.local/other")
    with pytest.raises(IntegrityError):
        parse_checkpoint(renamed, where="note").verify(key.public, where="note")


def test_a_witness_may_add_its_own_signature_line(key):
    note = (
        sign_checkpoint(CHECKPOINT, key)
        + sign_checkpoint(CHECKPOINT, SigningKey.generate()).split(b"\n\n")[1]
    )
    parse_checkpoint(note, where="note").verify(key.public, where="note")


def test_no_changed_byte_passes(key):
    note = sign_checkpoint(CHECKPOINT, key)
    for place in range(len(note)):
        for bit in (1, 128):
            changed = bytearray(note)
            changed[place] ^= bit
            with pytest.raises(MemtrialError):
                parse_checkpoint(bytes(changed), where="note").verify(key.public, where="note")


@pytest.mark.parametrize(
    "note",
    [
        b"",
        b"a\n1\nAAAA\n",
        b"a\n01\n" + b"A" * 43 + b"=\n\n\xe2\x80\x94 a AAAAAAAA\n",
        b"a\n-1\n" + b"A" * 43 + b"=\n\n\xe2\x80\x94 a AAAAAAAA\n",
        b"a\n1" + b"0" * 20 + b"\n" + b"A" * 43 + b"=\n\n\xe2\x80\x94 a AAAAAAAA\n",
        b"a\n1\n" + b"A" * 43 + b"=\nextra\n\n\xe2\x80\x94 a AAAAAAAA\n",
        b"a\n1\n" + b"A" * 43 + b"=\n\n" + b"\xe2\x80\x94 a AAAAAAAA\n" * 17,
        b"\xff\xfe",
        b"x" * 100_000,
    ],
    ids=[
        "empty",
        "unsigned",
        "zero in front",
        "negative",
        "gigantic",
        "more lines",
        "many signatures",
        "not text",
        "large",
    ],
)
def test_other_forms_are_refused(note):
    with pytest.raises(DocumentError):
        parse_checkpoint(note, where="note")


def signature_of(raw: bytes) -> bytes:
    note = sign_checkpoint(CHECKPOINT, SigningKey.generate()).decode()
    text = note.split("\n\n", maxsplit=1)[0]
    return f"{text}\n\n\u2014 memtrial.local/run {base64.b64encode(raw).decode()}\n".encode()


@pytest.mark.parametrize("length", [1, 4])
def test_a_signature_of_no_byte_after_its_key_hash_is_refused(length):
    with pytest.raises(DocumentError, match="expected a checkpoint"):
        parse_checkpoint(signature_of(b"x" * length), where="note")


@pytest.mark.parametrize("length", [31, 33])
def test_a_root_of_another_length_is_refused(key, length):
    other = Checkpoint(CHECKPOINT.origin, CHECKPOINT.size, b"r" * length)
    with pytest.raises(DocumentError, match="expected a checkpoint"):
        parse_checkpoint(sign_checkpoint(other, key), where="note")

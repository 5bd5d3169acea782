"""Promise: a key is one sound point with one name, and a signature covers exact bytes."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from pathlib import Path

import pytest

from orchestrator.core.curve import ORDER, P, add, decode, encode, fault_of_public_key, multiply
from orchestrator.core.errors import DocumentError, IntegrityError, MemtrialError, UsageError
from orchestrator.core.keys import PublicKey, SigningKey

VECTORS = Path(__file__).resolve().parents[2] / "cases" / "ed25519" / "wycheproof.json"
BASE = bytes.fromhex("58" + "66" * 31)
# A generator of the eight points of small order (its order is 8).
TORSION = bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05")


def small_order_encodings() -> list[bytes]:
    """All encodings of the eight points of small order: canonical, y + p where that fits, either sign bit."""
    point = decode(TORSION)
    assert point is not None
    encodings = set()
    for i in range(8):
        canonical = encode(multiply(i, point))
        y = int.from_bytes(canonical, "little") & ((1 << 255) - 1)
        sign = canonical[31] & 0x80
        encodings.add(canonical)
        for value in (y, y + P):
            if value < 1 << 255:
                raw = bytearray(value.to_bytes(32, "little"))
                encodings.add(bytes(raw[:31] + bytes([raw[31] | sign])))
                if y in {1, P - 1}:
                    encodings.add(bytes(raw[:31] + bytes([raw[31] ^ 0x80])))
    return sorted(encodings)


def test_every_published_vector_agrees():
    wrong = []
    for number, key, message, signature, result in json.loads(VECTORS.read_bytes())["tests"]:
        public = PublicKey.parse_raw(bytes.fromhex(key), where="vector")
        try:
            public.verify(bytes.fromhex(signature), bytes.fromhex(message), where="vector")
            found = "valid"
        except MemtrialError:
            found = "invalid"
        wrong += [] if found == result else [number]
    assert wrong == []


def test_all_fourteen_small_order_encodings_are_refused():
    encodings = small_order_encodings()
    assert len(encodings) == 14
    for raw in encodings:
        with pytest.raises(IntegrityError, match="prime-order group"):
            PublicKey.parse_raw(raw, where="key")


def test_a_weak_key_would_verify_any_message_if_it_were_not_refused():
    # The defence is the loader: the verification below it accepts this forgery.
    identity = (1).to_bytes(32, "little")
    forged = identity + bytes(32)
    PublicKey(identity).verify(forged, b"any message", where="forgery")
    PublicKey(identity).verify(forged, b"another message", where="forgery")
    assert fault_of_public_key(identity) is not None


def test_of_the_eight_aliases_of_one_private_key_only_the_key_itself_is_accepted():
    key = SigningKey.generate().public
    point, torsion = decode(key.raw), decode(TORSION)
    assert point is not None
    assert torsion is not None
    aliases = [encode(add(point, multiply(i, torsion))) for i in range(8)]
    assert len(set(aliases)) == 8
    assert [fault_of_public_key(alias) is None for alias in aliases] == [True] + [False] * 7


@pytest.mark.parametrize(
    "raw",
    [b"", bytes(31), bytes(33), b"\xff" * 32, (2).to_bytes(32, "little"), P.to_bytes(32, "little")],
    ids=["empty", "short", "long", "all-ones", "not-on-curve", "not-canonical"],
)
def test_other_bytes_are_no_key(raw):
    with pytest.raises(IntegrityError):
        PublicKey.parse_raw(raw, where="key")


def test_the_curve_is_the_curve():
    base = decode(BASE)
    assert base is not None
    assert encode(multiply(ORDER, base)) == (1).to_bytes(32, "little")
    assert encode(base) == BASE


def test_openssl_and_we_agree_on_key_ids_keys_and_signatures(tmp_path):
    private = tmp_path / "key.pem"
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", private], check=True)
    private.chmod(0o600)
    public = tmp_path / "key.pub.pem"
    subprocess.run(["openssl", "pkey", "-in", private, "-pubout", "-out", public], check=True)
    key = SigningKey.load(private)
    assert key.public == PublicKey.parse_pem(public.read_bytes(), where="openssl's key")
    der = subprocess.run(
        ["openssl", "pkey", "-pubin", "-in", public, "-outform", "DER"],
        check=True,
        capture_output=True,
    ).stdout
    assert key.public.keyid == hashlib.sha256(der).hexdigest()
    message, signature = tmp_path / "message", tmp_path / "signature"
    message.write_bytes(b"exact bytes")
    signature.write_bytes(key.sign(b"exact bytes"))
    command = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", public, "-rawin"]
    subprocess.run(
        [*command, "-in", message, "-sigfile", signature], check=True, capture_output=True
    )


def test_one_changed_bit_anywhere_is_refused():
    key = SigningKey.generate()
    message = b"a message of some length"
    signature = key.sign(message)
    key.public.verify(signature, message, where="sound")
    for bit in range(len(signature) * 8):
        changed = bytearray(signature)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(IntegrityError):
            key.public.verify(bytes(changed), message, where="changed")
    with pytest.raises(IntegrityError):
        key.public.verify(signature, message + b" ", where="longer")
    for odd in (b"", signature[:63], signature + b"\0"):
        with pytest.raises(IntegrityError):
            key.public.verify(odd, message, where="length")


@pytest.mark.parametrize(
    "change",
    [
        lambda pem: pem + b"\n",
        lambda pem: pem.replace(b"\n", b"\r\n"),
        lambda pem: b"note\n" + pem,
        lambda pem: pem * 2,
        lambda pem: pem.replace(b"PUBLIC", b"PRIVATE"),
        lambda pem: b"",
    ],
    ids=["blank line", "other line ends", "text before", "two keys", "other kind", "empty"],
)
def test_a_key_file_has_one_form(change):
    with pytest.raises(DocumentError):
        PublicKey.parse_pem(change(SigningKey.generate().public.pem()), where="key")


def test_a_private_key_that_others_can_read_is_refused(tmp_path):
    path = tmp_path / "key.pem"
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", path], check=True)
    path.chmod(0o644)
    with pytest.raises(UsageError, match="only its owner"):
        SigningKey.load(path)
    link = tmp_path / "link.pem"
    path.chmod(0o600)
    link.symlink_to(path)
    with pytest.raises(UsageError):
        SigningKey.load(link)


def test_a_private_key_of_another_kind_is_refused(tmp_path):
    path = tmp_path / "key.pem"
    command = ["openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"]
    subprocess.run([*command, "-out", path], check=True)
    path.chmod(0o600)
    with pytest.raises(DocumentError, match="Ed25519"):
        SigningKey.load(path)


def test_a_key_file_is_made_once_and_read_back(tmp_path):
    made = SigningKey.create(tmp_path / "key.pem")
    assert SigningKey.load(tmp_path / "key.pem").public == made.public
    with pytest.raises(UsageError) as refused:
        SigningKey.create(tmp_path / "key.pem")
    assert refused.value.reference == "signing-key-not-made"


@pytest.mark.parametrize(
    "text", [b"", b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"]
)
def test_a_file_that_holds_no_key_is_refused(tmp_path, text):
    path = tmp_path / "key.pem"
    path.write_bytes(text)
    path.chmod(0o600)
    with pytest.raises(DocumentError) as refused:
        SigningKey.load(path)
    assert refused.value.reference == "signing-key-malformed"


@pytest.mark.parametrize(
    "words",
    [
        ("genpkey", "-algorithm", "X25519"),
        ("genpkey", "-algorithm", "ed25519", "-aes256", "-pass", "pass:word"),
    ],
)
def test_a_key_of_another_kind_or_under_a_password_is_refused(tmp_path, words):
    path = tmp_path / "key.pem"
    subprocess.run(["openssl", *words, "-out", str(path)], check=True, capture_output=True)
    path.chmod(0o600)
    with pytest.raises(DocumentError) as refused:
        SigningKey.load(path)
    assert refused.value.reference == "signing-key-malformed"


def test_a_key_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(UsageError) as refused:
        SigningKey.load(tmp_path / "none.pem")
    assert refused.value.reference == "signing-key-missing"
    assert refused.value.hint.startswith("check the path")


@pytest.mark.parametrize("bad", ["missing", "malformed"])
def test_the_command_of_a_hint_overwrites_no_key_that_is_there(tmp_path, bad):
    (tmp_path / "key.pem").write_bytes(b"kept")
    if bad == "malformed":
        (tmp_path / "other.pem").touch(0o600)
    with pytest.raises(MemtrialError) as refused:
        SigningKey.load(tmp_path / "other.pem")
    (command,) = re.findall("`(.*)`", refused.value.hint)
    assert subprocess.run(["sh", "-c", command], cwd=tmp_path, check=False).returncode != 0
    assert (tmp_path / "key.pem").read_bytes() == b"kept"
    (tmp_path / "key.pem").unlink()
    subprocess.run(["sh", "-c", command], cwd=tmp_path, check=True, capture_output=True)
    SigningKey.load(tmp_path / "key.pem")


@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_a_public_key_in_a_private_ones_place_is_called_so(tmp_path, mode):
    path = tmp_path / "key.pub.pem"
    path.write_bytes(SigningKey.generate().public.pem())
    path.chmod(mode)
    with pytest.raises(UsageError) as refused:
        SigningKey.load(path)
    assert (refused.value.reference, "chmod" in refused.value.hint) == (
        "signing-key-is-public",
        False,
    )


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o601])
def test_a_key_that_others_can_reach_is_not_used(tmp_path, mode):
    SigningKey.create(tmp_path / "key.pem")
    (tmp_path / "key.pem").chmod(mode)
    with pytest.raises(UsageError) as refused:
        SigningKey.load(tmp_path / "key.pem")
    assert refused.value.reference == "signing-key-exposed"

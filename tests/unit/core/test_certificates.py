"""Promise: an own instance is read back as it was made, and nothing that others could have read or replaced."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509 import BasicConstraints, UniformResourceIdentifier, load_der_x509_certificate
from cryptography.x509.extensions import SubjectAlternativeName

from orchestrator.core.certificates import (
    LEAF_LIFE_S,
    Authority,
    create_authority,
    load_authority,
    save_authority,
)
from orchestrator.core.errors import UsageError

NOW_S = 1_800_000_000.0


@pytest.fixture(scope="module")
def authority() -> Authority:
    return create_authority(NOW_S)


@pytest.fixture
def folder(tmp_path: Path, authority: Authority) -> Path:
    save_authority(authority, tmp_path / "instance")
    return tmp_path / "instance"


def test_an_instance_is_read_back_as_it_was_made(authority, folder):
    found = load_authority(folder)
    assert (found.ca_der, found.ct_spki, found.log_seed) == (
        authority.ca_der,
        authority.ct_spki,
        authority.log_seed,
    )


def test_only_its_owner_can_read_any_of_it(folder):
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_leaf_is_of_the_root_for_one_identity_and_ten_minutes(authority):
    leaf = authority.issue(identity="https://example.org/me", issuer="own", now_s=NOW_S)
    read = load_der_x509_certificate(leaf.der)
    read.verify_directly_issued_by(load_der_x509_certificate(authority.ca_der))
    names = read.extensions.get_extension_for_class(SubjectAlternativeName).value
    assert names.get_values_for_type(UniformResourceIdentifier) == ["https://example.org/me"]
    life = read.not_valid_after_utc - read.not_valid_before_utc
    assert (life.total_seconds(), leaf.until_s) == (LEAF_LIFE_S, NOW_S + LEAF_LIFE_S)
    assert leaf.pem.startswith(b"-----BEGIN CERTIFICATE-----\n")


def test_a_leafs_signature_is_its_keys(authority):
    leaf = authority.issue(identity="https://example.org/me", issuer="own", now_s=NOW_S)
    leaf.key.public_key().verify(leaf.sign(b"message"), b"message", ec.ECDSA(SHA256()))


def test_the_root_alone_may_issue(authority):
    root = load_der_x509_certificate(authority.ca_der)
    limits = root.extensions.get_extension_for_class(BasicConstraints).value
    assert (limits.ca, limits.path_length) == (True, 0)


def test_a_folder_that_others_can_read_is_no_instance(folder):
    folder.chmod(0o750)
    with pytest.raises(UsageError, match="one that others can read"):
        load_authority(folder)


def test_a_folder_that_is_not_there_is_no_instance(tmp_path):
    with pytest.raises(UsageError, match="no folder"):
        load_authority(tmp_path / "nothing")


@pytest.mark.parametrize("name", ["ca.key.pem", "ct.key.pem", "ca.cert.pem", "log.seed"])
def test_an_instance_without_one_of_its_files_is_none(folder, name):
    (folder / name).unlink()
    with pytest.raises(UsageError) as refused:
        load_authority(folder)
    assert refused.value.reference == "sigstore-instance-unusable"


@pytest.mark.parametrize("name", ["ca.key.pem", "ct.key.pem", "ca.cert.pem", "log.seed"])
def test_a_damaged_file_is_refused_as_the_instance(folder, name):
    (folder / name).write_bytes(b"damaged")
    with pytest.raises(UsageError) as refused:
        load_authority(folder)
    assert refused.value.reference == "sigstore-instance-unusable"


@pytest.mark.parametrize("name", ["ca.key.pem", "ct.key.pem"])
def test_a_key_of_another_kind_is_refused(folder, name):
    other = ed25519.Ed25519PrivateKey.generate()
    pem = other.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / name).write_bytes(pem)
    with pytest.raises(UsageError, match="other kinds of keys"):
        load_authority(folder)


def test_each_instance_has_keys_of_its_own(authority):
    other = create_authority(NOW_S)
    assert {other.ca_der, other.ct_spki, other.log_seed}.isdisjoint(
        {authority.ca_der, authority.ct_spki, authority.log_seed}
    )

"""Promise: `deps verify` tells pinned, attested and wrong distributions apart, offline."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestrator.attest.piplock import Pin, normalised, parse_lock
from orchestrator.attest.provenance import verify_provenance
from orchestrator.audit.dependencies import check_dependencies
from orchestrator.core.errors import DocumentError, MemtrialError

CASE = Path(__file__).resolve().parents[2] / "cases" / "provenance"
NAME = "pypi_attestations-0.0.19.tar.gz.provenance"
SHA256 = "9bb1add04b1b4e182be6b0b80931593f7a291eb49d69b4fd728a5d4cbcdc4bd3"
DATA = (CASE / NAME).read_bytes()


def verify(name: str, data: bytes):
    return verify_provenance(data, where=name)


PUBLISHER = "https://github.com/trailofbits/pypi-attestations"


def judge(pin: Pin, stored: dict[str, bytes], **more):
    """Judges one pin; documents of other names are judged apart."""
    finding, *_ = check_dependencies([pin], stored, verify, **more)
    return finding


def not_installed(sha256: str) -> Pin:
    return Pin("memtrial-not-installed", "1", frozenset({sha256}))


def test_a_real_attestation_verifies_and_names_file_and_publisher():
    (found,) = verify(NAME, DATA)
    assert found.sha256 == SHA256
    assert found.filename == "pypi_attestations-0.0.19.tar.gz"
    assert found.publisher == "https://github.com/trailofbits/pypi-attestations"


def test_a_publisher_counts_only_where_the_table_names_it():
    pin = not_installed(SHA256)
    unpinned = judge(pin, {NAME: DATA})
    assert unpinned.standing == "publisher_not_pinned"
    assert PUBLISHER in unpinned.detail
    assert judge(pin, {NAME: DATA}, publishers={pin.name: PUBLISHER}).standing == "attested"
    other = judge(pin, {NAME: DATA}, publishers={pin.name: "https://github.com/pypi/else"})
    assert other.standing == "mismatch"
    assert "expected https://github.com/pypi/else" in other.detail


def test_a_source_distributions_provenance_does_not_cover_an_installed_wheel():
    pin = Pin("pypi-attestations", _installed_version(), frozenset({SHA256}))
    finding = judge(pin, {NAME: DATA}, publishers={pin.name: PUBLISHER})
    assert finding.standing == "hash_pinned"
    assert "which is not what is installed" in finding.detail


def test_provenance_of_a_distribution_that_the_lock_has_not_is_told():
    _, stray = check_dependencies([not_installed(SHA256)], {NAME: DATA}, verify)
    assert (stray.name, stray.standing) == ("pypi-attestations", "not_locked")
    assert NAME in stray.detail
    locked = Pin("pypi-attestations", "0", frozenset({SHA256}))
    assert len(check_dependencies([locked], {NAME: DATA}, verify)) == 1


def test_provenance_of_another_file_than_the_locked_one_is_a_mismatch():
    pin = Pin("pypi-attestations", _installed_version(), frozenset({"0" * 64}))
    assert judge(pin, {NAME: DATA}).standing == "mismatch"


def _installed_version() -> str:
    from importlib import metadata

    return metadata.version("pypi-attestations")


def _changed(change) -> bytes:
    document = json.loads(DATA)
    change(document["attestation_bundles"][0])
    return json.dumps(document).encode()


CHANGES = {
    "another repository": lambda b: b["publisher"].update(repository="someone/else"),
    "another statement": lambda b: b["attestations"][0]["envelope"].update(statement="e30="),
    "another signature": lambda b: b["attestations"][0]["envelope"].update(
        signature="MEUCIQ" + b["attestations"][0]["envelope"]["signature"][6:][::-1]
    ),
    "no log entry": lambda b: b["attestations"][0]["verification_material"].update(
        transparency_entries=[]
    ),
    "another site": lambda b: b.update(
        publisher={
            "kind": "GitLab",
            "repository": "trailofbits/pypi-attestations",
            "workflow_filepath": "release.yml",
        }
    ),
}


def test_a_kind_of_publisher_that_is_not_checked_is_no_mismatch_unless_another_is_pinned():
    data = _changed(
        lambda b: b.update(publisher={"kind": "Google", "email": "someone@example.com"})
    )
    pin = Pin("pypi-attestations", _installed_version(), frozenset({SHA256}))
    with pytest.raises(DocumentError) as refused:
        verify(NAME, data)
    assert refused.value.reference == "publisher-unknown"
    finding = judge(pin, {NAME: data})
    assert finding.standing == "hash_pinned"
    assert "found one of kind Google" in finding.detail
    assert judge(pin, {NAME: data}, publishers={pin.name: PUBLISHER}).standing == "mismatch"


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_tampered_provenance_is_refused_and_makes_a_mismatch(change):
    data = _changed(change)
    with pytest.raises(MemtrialError):
        verify(NAME, data)
    pin = Pin("pypi-attestations", _installed_version(), frozenset({SHA256}))
    assert judge(pin, {NAME: data}).standing == "mismatch"


def test_another_trust_root_refuses_it():
    import time

    from orchestrator.attest.sigstore_project import ProjectInstance

    config = json.loads(ProjectInstance.for_once(time.time()).trust_config())
    with pytest.raises(MemtrialError):
        verify_provenance(DATA, where=NAME, trusted_root=json.dumps(config["trustedRoot"]).encode())


def test_an_installed_distribution_is_compared_with_its_record(tmp_path, monkeypatch):
    import base64
    import hashlib

    info = tmp_path / "memtrial_demo-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: memtrial-demo\nVersion: 1.0\n")
    module = tmp_path / "memtrial_demo.py"
    module.write_text("answer = 42\n")
    digest = base64.urlsafe_b64encode(hashlib.sha256(module.read_bytes()).digest())
    (info / "RECORD").write_text(f"memtrial_demo.py,sha256={digest.rstrip(b'=').decode()},12\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    pin = Pin("memtrial-demo", "1.0", frozenset({"0" * 64}))
    assert judge(pin, {}).standing == "hash_pinned"
    assert judge(Pin("memtrial-demo", "1.1", pin.sha256s), {}).standing == "mismatch"
    assert judge(Pin("memtrial-demo", "1.0", frozenset()), {}).standing == "not_pinned"
    module.write_text("answer = 41\n")
    assert judge(pin, {}).standing == "mismatch"


def test_a_lock_pins_exact_versions_with_hashes():
    text = f"# made by hand\nPydantic_Core==2.0 \\\n    --hash=sha256:{'a' * 64} \\\n    --hash=sha256:{'b' * 64}\n    # via pydantic\n"
    assert parse_lock(text) == (Pin("pydantic-core", "2.0", frozenset({"a" * 64, "b" * 64})),)
    with pytest.raises(DocumentError):
        parse_lock("pydantic>=2\n")
    assert normalised("A__b.C") == "a-b-c"

"""Promise: the public instance is the one that sigstore ships, offline, and never one that a bundle names."""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path

import pytest

from orchestrator.attest.sigstore_project import ProjectInstance
from orchestrator.attest.sigstore_verify import StatementVerifier
from orchestrator.attest.trustroots import root_at, shipped_root
from orchestrator.core.clock import utc_seconds
from orchestrator.core.errors import DocumentError, IntegrityError
from orchestrator.model.bundle import SigstorePin

CASE = Path(__file__).resolve().parents[2] / "cases" / "provenance"
NAME = "pypi_attestations-0.0.19.tar.gz.provenance"
IDENTITY = "https://github.com/trailofbits/pypi-attestations/.github/workflows/release.yml@refs/tags/v0.0.19"
PIN = SigstorePin(
    instance="public", identity=IDENTITY, issuer="https://token.actions.githubusercontent.com"
)


@pytest.fixture(scope="module")
def bundle() -> bytes:
    """A bundle that the public instance really made."""
    from pypi_attestations import Provenance

    provenance = Provenance.model_validate_json((CASE / NAME).read_bytes())
    made: str = provenance.attestation_bundles[0].attestations[0].to_bundle().to_json()
    return made.encode()


@pytest.fixture(autouse=True)
def offline(monkeypatch, tmp_path):
    """No connection can be made, and a home is there that must stay empty."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("expected no network, found a connection")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setenv("HOME", str(tmp_path))
    yield
    assert list(tmp_path.iterdir()) == []


def test_a_bundle_of_the_public_instance_verifies_offline(bundle):
    payload = StatementVerifier(None, PIN).verify(bundle, expected=None, where="x")
    assert json.loads(payload)["subject"][0]["name"] == "pypi_attestations-0.0.19.tar.gz"


@pytest.mark.parametrize("change", [{"identity": IDENTITY + "x"}, {"issuer": "https://x.invalid"}])
def test_one_of_another_identity_is_refused(bundle, change):
    with pytest.raises(IntegrityError):
        StatementVerifier(None, PIN.model_copy(update=change)).verify(
            bundle, expected=None, where="x"
        )


def test_the_public_instance_takes_no_configuration_from_a_bundle():
    own = ProjectInstance.for_once(time.time())
    with pytest.raises(IntegrityError, match="whoever made this bundle would choose"):
        StatementVerifier(own.trust_config(), PIN)


def test_a_bundle_of_an_own_instance_is_none_of_the_public_one():
    own = ProjectInstance.for_once(time.time())
    with pytest.raises(IntegrityError):
        StatementVerifier(None, PIN).verify(
            own.sign(b"{}", now_s=time.time()), expected=None, where="x"
        )


def test_what_had_ended_or_not_begun_does_not_count():
    def names(at: str) -> dict[str, int]:
        root = json.loads(root_at(shipped_root(), utc_seconds(at)))
        return {part: len(items) for part, items in root.items() if isinstance(items, list)}

    assert names("2020-01-01T00:00:00Z") == {
        "certificateAuthorities": 0,
        "ctlogs": 0,
        "timestampAuthorities": 0,
        "tlogs": 0,
    }
    assert names("2022-06-01T00:00:00Z")["certificateAuthorities"] == 2
    assert names("2023-06-01T00:00:00Z")["certificateAuthorities"] == 1


@pytest.mark.parametrize("data", [b"[]", b"{", b'{"a":1,"a":2}'])
def test_a_root_that_is_none_is_refused(data):
    with pytest.raises(DocumentError):
        root_at(data, 0)

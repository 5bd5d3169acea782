"""Promise: a bundle cannot say of itself that the public sigstore instance, or whom the reader expects, signed it."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import pytest

from orchestrator.attest import layout, sigstore_verify
from orchestrator.attest.sigstore_sign import signer_of
from orchestrator.audit.verify import verify_bundle
from orchestrator.audit.view import MemoryView
from orchestrator.core.canonical import canonical_bytes
from orchestrator.pipeline.seal import Signer
from tests.evidence.tamper import Files, reseal_list
from tests.recorded import files_of, seal

SOMEONE = ("someone@example.org", "https://issuer.example.org")


@pytest.fixture(scope="module")
def own(tiny, tmp_path_factory) -> Files:
    """A bundle with sigstore bundles of an own instance."""
    folder = tmp_path_factory.mktemp("own") / "run"
    shutil.copytree(tiny.folder, folder)
    seal(folder, Signer(tiny.key, "operator", signer_of("project", None)))
    return files_of(folder)


def pinned(files: Files, key, **change: str) -> Files:
    """The same with another pin on its card, under a list and a seal that fit."""
    card = json.loads(files[layout.CARD])
    card["sigstore"] |= change
    return reseal_list({**files, layout.CARD: canonical_bytes(card)}, key)


def told(files: Files, trust):
    answer = verify_bundle(MemoryView(files), trust, name="x")
    check = next(check for check in answer.checks if check.name == "sigstore")
    return answer.exit_code, check.status, check.reference, check.detail


def test_an_own_instance_is_told_as_no_independent_witness(own, tiny):
    assert told(own, tiny.trust) == (
        0,
        "ok",
        None,
        "project-owned instance: no independent witness",
    )


def test_an_own_instance_cannot_call_itself_the_public_one(own, tiny):
    claims = pinned(own, tiny.key, instance="public")
    assert told(claims, tiny.trust)[:3] == (6, "failed", "sigstore-unexpected")
    bare = {name: data for name, data in claims.items() if not name.startswith("trust/")}
    assert told(reseal_list(bare, tiny.key), tiny.trust)[:3] == (6, "failed", "sigstore-refused")


def test_an_own_instance_cannot_take_another_identity(own, tiny):
    claims = pinned(own, tiny.key, identity=SOMEONE[0])
    assert told(claims, tiny.trust)[:3] == (6, "failed", "sigstore-unexpected")


def test_an_expected_identity_that_nobody_has_is_a_no(own, tiny):
    trust = replace(tiny.trust, sigstore_identity=SOMEONE)
    for files in (own, tiny.files):
        assert told(files, trust)[:3] == (1, "failed", "sigstore-identity-differs")


def test_the_identity_of_the_public_instance_counts_only_from_outside(own, tiny, monkeypatch):
    class Believing:
        """Stands for bundles that the public instance made: they need network and an identity."""

        def __init__(self, config: bytes | None, _: object) -> None:
            assert config is None

        def verify(self, data: bytes, **_: object) -> bytes:
            return data

    monkeypatch.setattr(sigstore_verify, "StatementVerifier", Believing)
    bare = {name: data for name, data in own.items() if not name.startswith("trust/")}
    public = pinned(bare, tiny.key, instance="public", identity=SOMEONE[0], issuer=SOMEONE[1])
    code, status, _, detail = told(public, tiny.trust)
    assert (code, status) == (0, "partly")
    assert f"{SOMEONE[0]} by {SOMEONE[1]}" in detail
    trust = replace(tiny.trust, sigstore_identity=SOMEONE)
    assert told(public, trust)[:2] == (0, "ok")
    other = replace(tiny.trust, sigstore_identity=("another@example.org", SOMEONE[1]))
    assert told(public, other)[:3] == (1, "failed", "sigstore-identity-differs")

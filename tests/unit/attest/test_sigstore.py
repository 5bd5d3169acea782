"""Promise: the sigstore library itself accepts the offline bundles and refuses every tampered one, as we do."""

from __future__ import annotations

import base64
import copy
import json
import os
import subprocess
import sys
import time

import pytest

from orchestrator.attest.sigstore_project import PIN, ProjectInstance
from orchestrator.attest.sigstore_verify import StatementVerifier, validity_ends_s
from orchestrator.core.canonical import sha256_hex
from orchestrator.core.errors import DocumentError, IntegrityError, MemtrialError, UsageError

SUBJECT = b"the bytes of a record"
STATEMENT = json.dumps(
    {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": "record", "digest": {"sha256": sha256_hex(SUBJECT)}}],
        "predicateType": "https://in-toto.io/attestation/test-result/v0.1",
        "predicate": {"result": "PASSED"},
    }
).encode()


@pytest.fixture(scope="module")
def instance() -> ProjectInstance:
    instance = ProjectInstance.for_once(time.time())
    for number in range(6):
        instance.sign(STATEMENT.replace(b"PASSED", b"FAILED%d" % number), now_s=time.time())
    return instance


@pytest.fixture(scope="module")
def bundle(instance) -> bytes:
    signed: bytes = instance.sign(STATEMENT, now_s=time.time())
    return signed


@pytest.fixture(scope="module")
def verifier(instance) -> StatementVerifier:
    return StatementVerifier(instance.trust_config(), PIN)


def entry(bundle):
    return bundle["verificationMaterial"]["tlogEntries"][0]


def proof(bundle):
    return entry(bundle)["inclusionProof"]


def repayload(bundle):
    statement = STATEMENT.replace(b"PASSED", b"FAILED")
    bundle["dsseEnvelope"]["payload"] = base64.b64encode(statement).decode()


TAMPERED = {
    "payload": repayload,
    "payload type": lambda b: b["dsseEnvelope"].update(payloadType="text/plain"),
    "second signature": lambda b: b["dsseEnvelope"]["signatures"].append(
        b["dsseEnvelope"]["signatures"][0]
    ),
    "no log entry": lambda b: b["verificationMaterial"].update(tlogEntries=[]),
    "no promise": lambda b: entry(b).pop("inclusionPromise"),
    "other root": lambda b: proof(b).update(rootHash=base64.b64encode(bytes(32)).decode()),
    "no path": lambda b: proof(b).update(hashes=[]),
    "other size": lambda b: proof(b).update(treeSize="8"),
    "other index": lambda b: entry(b).update(logIndex="3"),
    "other time": lambda b: entry(b).update(
        integratedTime=str(int(entry(b)["integratedTime"]) + 60)
    ),
    "checkpoint renamed": lambda b: proof(b)["checkpoint"].update(
        envelope=proof(b)["checkpoint"]["envelope"].replace("sigstore.mem", "sigstore.men")
    ),
    "other kind": lambda b: entry(b)["kindVersion"].update(kind="intoto"),
    "unknown field": lambda b: b.update(more=1),
}


def test_the_bundle_verifies_and_holds_the_statement(bundle, verifier):
    assert verifier.verify(bundle, expected=STATEMENT, where="x") == STATEMENT


@pytest.mark.parametrize("change", TAMPERED.values(), ids=TAMPERED)
def test_a_tampered_bundle_is_refused(bundle, verifier, change):
    changed = copy.deepcopy(json.loads(bundle))
    change(changed)
    with pytest.raises(MemtrialError):
        verifier.verify(json.dumps(changed).encode(), expected=STATEMENT, where="x")


def test_a_duplicate_key_that_the_library_takes_is_refused(bundle, verifier):
    doubled = bundle.replace(b"{", b'{"mediaType":"x",', 1)
    with pytest.raises(DocumentError, match="twice"):
        verifier.verify(doubled, expected=STATEMENT, where="x")


def test_a_good_bundle_of_another_statement_is_refused(instance, verifier):
    other = instance.sign(STATEMENT.replace(b"PASSED", b"FAILED"), now_s=time.time())
    with pytest.raises(IntegrityError, match="statement that the record gives"):
        verifier.verify(other, expected=STATEMENT, where="x")


def test_another_instance_or_identity_is_refused(bundle, instance):
    other = ProjectInstance.for_once(time.time())
    with pytest.raises(IntegrityError):
        StatementVerifier(other.trust_config(), PIN).verify(bundle, expected=STATEMENT, where="x")
    for change in ({"identity": "urn:memtrial:someone"}, {"issuer": "https://elsewhere.invalid"}):
        with pytest.raises(IntegrityError):
            StatementVerifier(instance.trust_config(), PIN.model_copy(update=change)).verify(
                bundle, expected=STATEMENT, where="x"
            )


@pytest.mark.parametrize("part", ["certificateAuthorities", "tlogs"])
def test_an_ended_trust_root_which_the_library_ignores_is_refused_by_us(bundle, instance, part):
    config = json.loads(instance.trust_config())
    item = config["trustedRoot"][part][0]
    span = item["validFor"] if "validFor" in item else item["publicKey"]["validFor"]
    span["end"] = "2026-02-01T00:00:00Z"
    data = json.dumps(config).encode()
    assert len(validity_ends_s(data)) == 1
    with pytest.raises(IntegrityError):
        StatementVerifier(data, PIN).verify(bundle, expected=STATEMENT, where="x")


@pytest.mark.parametrize("end", ["tomorrow", "2026-13-01T00:00:00Z", "2099-01-01T00:00:00"])
def test_an_end_that_is_no_time_is_refused(bundle, instance, end):
    config = json.loads(instance.trust_config())
    config["trustedRoot"]["certificateAuthorities"][0]["validFor"]["end"] = end
    with pytest.raises(IntegrityError, match="a time as the end of validity"):
        StatementVerifier(json.dumps(config).encode(), PIN)


def test_an_instance_in_a_folder_keeps_its_keys_and_its_log(tmp_path):
    folder = tmp_path / "instance"
    first = ProjectInstance.in_folder(folder, time.time())
    one = first.sign(STATEMENT, now_s=time.time())
    second = ProjectInstance.in_folder(folder, time.time())
    two = second.sign(STATEMENT, now_s=time.time())
    verifier = StatementVerifier(first.trust_config(), PIN)
    for data in (one, two):
        verifier.verify(data, expected=STATEMENT, where="x")
    assert second.tree.size == 2
    assert {path.stat().st_mode & 0o077 for path in [folder, *folder.iterdir()]} == {0}
    folder.chmod(0o755)
    with pytest.raises(UsageError, match="0700"):
        ProjectInstance.in_folder(folder, time.time())


def test_the_librarys_own_command_verifies_offline_with_a_bare_home(bundle, instance, tmp_path):
    (tmp_path / "b.json").write_bytes(bundle)
    (tmp_path / "c.json").write_bytes(instance.trust_config())
    (tmp_path / "record").write_bytes(SUBJECT)
    home = tmp_path / "home"
    home.mkdir()
    environment = {"PATH": os.environ["PATH"], "HOME": str(home)}

    def verify(name: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [
                sys.executable,
                *("-m", "sigstore", "--trust-config", str(tmp_path / "c.json")),
                *("verify", "identity", "--bundle", str(tmp_path / name)),
                *("--cert-identity", PIN.identity, "--cert-oidc-issuer", PIN.issuer),
                str(tmp_path / "record"),
            ],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    accepted = verify("b.json")
    assert accepted.returncode == 0, accepted.stderr
    changed = json.loads(bundle)
    repayload(changed)
    (tmp_path / "t.json").write_text(json.dumps(changed))
    assert verify("t.json").returncode != 0
    assert list(home.iterdir()) == []

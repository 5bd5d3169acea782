"""Promise: what people answered and how long it took is in the bundle, and nobody can say otherwise of it."""

from __future__ import annotations

import json
import shutil

import pytest

from orchestrator.audit.trust import Trust
from orchestrator.audit.verify import verify_bundle
from orchestrator.audit.view import FolderView
from orchestrator.core.canonical import canonical_bytes, sha256_hex
from orchestrator.core.keys import SigningKey
from orchestrator.ledger.blobs import BlobStore
from orchestrator.pipeline.seal import Signer
from tests.evidence.conftest import NOW
from tests.evidence.insider_operations import document, keep, put, rebind, stage_of, trials_of
from tests.evidence.tamper import rewrite_record
from tests.recorded import record_run, seal
from tests.reviewed import ARM, REVIEWED, answered, install


@pytest.fixture(scope="module")
def reviewed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reviewed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MEMTRIAL_CONDITIONS", str(install(folder, None)))
        log = answered("promote")
        install(folder, log)
        run = record_run(folder / "results", REVIEWED)
        key = SigningKey.generate()
        seal(run, Signer(key, "operator"))
        yield run, key, log


def verify(folder, key):
    return verify_bundle(FolderView(folder), Trust(now=NOW, keyid=key.public.keyid), name="run")


def test_a_reviewed_run_verifies_and_holds_the_log(reviewed):
    folder, key, log = reviewed
    answer = verify(folder, key)
    assert answer.exit_code == 0, answer.failed
    assert BlobStore(folder / "blobs").get(log.digest_sha256()) == log.canonical()


@pytest.mark.parametrize("field", ["seconds_spent", "resolved", "open"])
def test_other_figures_of_a_review_are_found(reviewed, tmp_path, field):
    folder, key, _ = reviewed
    copy = tmp_path / folder.name
    shutil.copytree(folder, copy)

    def change(entries, blobs):
        trial = trials_of(entries, ARM)[0]
        body = stage_of(entries, trial, "remember")
        said = document(blobs, body)
        artifact = next(a for a in body["artifacts"] if a["name"] == "extraction")
        value = json.loads(blobs.get(artifact["sha256"]))
        value["review"][field] += 1
        data = canonical_bytes(value)
        keep(blobs, body, "extraction", data)
        for step in said["steps"]:
            if step["step"] == "settle":
                step["answer_sha256"] = sha256_hex(data)
        for entry in entries:
            record = entry["body"].get("record")
            if entry["body"].get("trial") == trial and record and record["step"] == "settle":
                record["answer_sha256"] = sha256_hex(data)
        put(blobs, body, said)
        grade = stage_of(entries, trial, "grade")
        kept = next(a for a in grade["artifacts"] if a["name"] == "memory-trace")
        trace = json.loads(blobs.get(kept["sha256"]))
        trace["remembered_sha256"] = body["document_sha256"]
        keep(blobs, grade, "memory-trace", canonical_bytes(trace))
        rebind(entries, blobs, trial)

    rewrite_record(copy, change, key)
    answer = verify(copy, key)
    (failed,) = answer.failed
    assert "to be carried out, found" in failed.detail

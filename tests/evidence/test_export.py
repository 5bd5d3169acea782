"""Promise: one archive of one form; a secret stops it; a public copy says what it left out and verifies."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest

from orchestrator.attest import layout
from orchestrator.audit.export import Choices, export_run, secret_values
from orchestrator.audit.trust import Trust
from orchestrator.audit.verify import verify_bundle
from orchestrator.audit.view import open_view
from orchestrator.cli.export import _planted
from orchestrator.core.errors import IntegrityError, Negative, UsageError
from orchestrator.model.plan import Plan
from orchestrator.pipeline.seal import Signer
from tests.evidence.conftest import NOW
from tests.recorded import seal

# The shipped histories hold made-up secrets on purpose; the verb accepts exactly those.
PLANTED = _planted()


def verify_archive(path, trust):
    view, archive = open_view(path)
    assert archive is not None
    try:
        return verify_bundle(view, trust, name=path.name)
    finally:
        archive.close()


def test_the_archive_verifies_without_unpacking_and_two_exports_are_equal(eight, tmp_path):
    first, second = tmp_path / "a.tar", tmp_path / "b.tar"
    outcome = export_run(eight.folder, first, Choices(accept=PLANTED), eight.trust)
    export_run(eight.folder, second, Choices(accept=PLANTED), eight.trust)
    assert first.read_bytes() == second.read_bytes()
    assert outcome.files == len(eight.files)
    assert verify_archive(first, eight.trust).standing == "authentic"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.tar", "b.tar"]


def test_a_public_copy_withholds_named_blobs_lists_them_and_the_rest_is_recomputed(eight, tmp_path):
    plan = Plan.model_validate_json(eight.files[layout.PLAN])
    keys = frozenset({plan.tasks[0].digests.key_sha256})
    out = tmp_path / "public.tar"
    outcome = export_run(eight.folder, out, Choices(accept=PLANTED, withhold=keys), eight.trust)
    assert len(outcome.withheld) == 1
    refused = verify_archive(out, eight.trust)
    assert [check.reference for check in refused.failed] == ["withheld-not-accepted"]
    answer = verify_archive(out, replace(eight.trust, allow_withheld=True))
    assert (answer.exit_code, answer.standing) == (0, "authentic_in_part")
    assert answer.withheld == outcome.withheld
    checks = {check.name: check for check in answer.checks}
    assert (checks["verdicts"].status, checks["verdicts"].count) == ("partly", 4)
    assert checks["report"].status == "ok"
    assert checks["statements"].count == 25


def test_a_withheld_verdict_leaves_the_rest_verifiable_and_says_what_is_not(eight, tmp_path):
    import json

    entries = [json.loads(line)["body"] for line in eight.files[layout.LEDGER].splitlines()]
    verdict = next(e["document_sha256"] for e in entries if e.get("stage") == "grade")
    out = tmp_path / "public.tar"
    export_run(
        eight.folder, out, Choices(accept=PLANTED, withhold=frozenset({verdict})), eight.trust
    )
    answer = verify_archive(out, replace(eight.trust, allow_withheld=True))
    assert answer.exit_code == 0, answer.failed
    checks = {check.name: check for check in answer.checks}
    assert checks["report"].status == "not_checked"
    assert "withheld" in checks["report"].detail
    assert checks["verdicts"].count < 8


def test_more_than_what_was_said_cannot_be_missing_from_a_public_copy(eight, tmp_path):
    import tarfile

    plan = Plan.model_validate_json(eight.files[layout.PLAN])
    out = tmp_path / "public.tar"
    keys = frozenset({plan.tasks[0].digests.key_sha256})
    export_run(eight.folder, out, Choices(accept=PLANTED, withhold=keys), eight.trust)
    folder = tmp_path / "unpacked"
    with tarfile.open(out) as archive:
        archive.extractall(folder, filter="data")
    trust = replace(eight.trust, allow_withheld=True)
    assert verify_bundle(open_view(folder)[0], trust, name="unpacked").exit_code == 0
    next(path for path in sorted((folder / "blobs").rglob("*")) if path.is_file()).unlink()
    assert verify_bundle(open_view(folder)[0], trust, name="unpacked").exit_code == 6


@pytest.fixture
def copy(tiny, tmp_path):
    folder = tmp_path / tiny.folder.name
    shutil.copytree(tiny.folder, folder)
    return folder


def plant(folder, tiny, text: str) -> None:
    (folder / "notes.txt").write_text(text)
    seal(folder, Signer(tiny.key, "operator"))


# Put together here, so that no scanner takes this file for a leak.
SECRETS = {
    "model key": "sk-" + "a1B2c3D4" * 4,
    "github token": "ghp_" + "A1b2C3d4e5" * 4,
    "private key": "-----BEGIN " + "PRIVATE KEY-----\nMC4CAQ\n-----END " + "PRIVATE KEY-----",
    "password": "password = " + "hunter2!Xy9#kQ",
}


@pytest.mark.parametrize("text", SECRETS.values(), ids=SECRETS)
def test_a_secret_in_any_file_stops_the_export_and_nothing_is_written(copy, tiny, tmp_path, text):
    plant(copy, tiny, f"log line\n{text}\n")
    out = tmp_path / "out" / "run.tar"
    out.parent.mkdir()
    with pytest.raises(Negative) as refused:
        export_run(copy, out, Choices(accept=PLANTED), tiny.trust)
    assert refused.value.reference == "secrets-found"
    assert "notes.txt" in refused.value.message
    assert text not in refused.value.message
    assert list(out.parent.iterdir()) == []
    reviewed = export_run(copy, out, Choices(accept=PLANTED | {"notes.txt"}), tiny.trust)
    assert reviewed.path == out


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("TOKEN=[redacted:github-token]" + "661b34255dbe1dae" * 4, False),
        ("TOKEN=[redacted:github-token]\0password=hunter2-Qx9Lm4", True),
        ("TOKEN=ghp_" + "a1B2" * 8, True),
    ],
)
def test_in_a_binary_file_a_mark_ends_its_value_and_a_secret_is_still_found(
    copy, tiny, tmp_path, text, refused
):
    """A store keeps a redacted text and the digest of the next column without anything between them."""
    plant(copy, tiny, f"SQLite\0{text}\0")
    out = tmp_path / "out.tar"
    if refused:
        with pytest.raises(Negative, match="found something like one"):
            export_run(copy, out, Choices(accept=PLANTED), tiny.trust)
    else:
        export_run(copy, out, Choices(accept=PLANTED), tiny.trust)
    assert out.exists() != refused


def test_the_value_of_a_secret_variable_is_found_in_a_compressed_blob_too(copy, tiny, tmp_path):
    value = "plain words as a secret value"
    blobs = copy / "blobs"
    from orchestrator.ledger.blobs import BlobStore

    BlobStore(blobs).put((value + "\n").encode() * 200)
    seal(copy, Signer(tiny.key, "operator"))
    known = secret_values({"SOME_API_KEY": value, "HOME": "/home/someone", "SHORT_TOKEN": "abc"})
    assert known == {value.encode()}
    with pytest.raises(Negative):
        export_run(
            copy,
            tmp_path / "out.tar",
            Choices(accept=PLANTED | {"*"}, known_secrets=known),
            tiny.trust,
        )
    export_run(copy, tmp_path / "out.tar", Choices(accept=PLANTED), tiny.trust)


def test_a_secret_in_a_history_that_is_not_a_shipped_one_stops_the_export(eight, tmp_path):
    with pytest.raises(Negative, match="blobs/"):
        export_run(eight.folder, tmp_path / "out.tar", Choices(), eight.trust)


def test_a_run_that_is_not_sealed_or_was_changed_since_is_not_exported(copy, tiny, tmp_path):
    (copy / "report.txt").write_text("better")
    with pytest.raises(IntegrityError):
        export_run(copy, tmp_path / "out.tar", Choices(accept=PLANTED), tiny.trust)
    (copy / layout.SEAL).unlink()
    with pytest.raises(IntegrityError, match="found none"):
        export_run(copy, tmp_path / "out.tar", Choices(accept=PLANTED), Trust(now=NOW))


def test_a_name_that_is_taken_and_a_blob_that_is_not_there_are_refused(eight, tmp_path):
    out = tmp_path / "run.tar"
    out.write_bytes(b"mine")
    with pytest.raises(UsageError, match="free name"):
        export_run(eight.folder, out, Choices(accept=PLANTED), eight.trust)
    assert out.read_bytes() == b"mine"
    with pytest.raises(UsageError, match="blob of this run"):
        export_run(
            eight.folder,
            tmp_path / "x.tar",
            Choices(accept=PLANTED, withhold=frozenset({"0" * 64})),
            eight.trust,
        )

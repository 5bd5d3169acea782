"""Promise: a seal covers all, replaces an earlier one without losing it, and refuses what is not the plan's."""

from __future__ import annotations

import json
import shutil
from importlib import metadata

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from orchestrator.attest import layout
from orchestrator.audit.trust import Trust
from orchestrator.audit.verify import verify_bundle
from orchestrator.audit.view import FolderView, MemoryView
from orchestrator.cli.main import main
from orchestrator.core.canonical import sha256_hex
from orchestrator.core.errors import DocumentError, IntegrityError, UsageError
from orchestrator.core.keys import SigningKey
from orchestrator.core.strictjson import MAX_BYTES
from orchestrator.ledger.chain import Ledger
from orchestrator.model.record import RunEnded, RunResumed
from orchestrator.model.report import RunReport
from orchestrator.pipeline.dossier import Attached
from orchestrator.pipeline.prefix import signed_prefix
from orchestrator.pipeline.run import Run
from orchestrator.pipeline.seal import Inputs, Signer, seal_run
from tests.evidence.conftest import NOW
from tests.played_live import record_live_run
from tests.recorded import files_of, inputs, seal, write_reports


@pytest.fixture
def copy(tiny, tmp_path):
    folder = tmp_path / tiny.folder.name
    shutil.copytree(tiny.folder, folder)
    return folder


def grow(folder) -> None:
    """Adds what `memtrial resume` adds to a finished run."""
    ledger, _, _ = Ledger.open_for_append(folder / layout.LEDGER)
    ledger.append(RunResumed(torn_tail_bytes=0))
    ledger.append(RunEnded(trials=1, completed=1, wall_ms=1))
    ledger.close()
    write_reports(folder)


def test_a_run_that_went_on_is_sealed_again_and_shown_to_continue_its_earlier_checkpoint(
    tiny, copy
):
    grow(copy)
    first = verify_bundle(FolderView(copy), Trust(now=NOW), name="half")
    assert first.exit_code == 6, "a stale seal does not cover the new records"
    key = SigningKey.generate()
    seal(copy, Signer(key, "operator"))
    answer = verify_bundle(FolderView(copy), Trust(now=NOW, keyid=key.public.keyid), name="again")
    assert answer.exit_code == 0, answer.failed
    checkpoints = next(check for check in answer.checks if check.name == "checkpoint")
    assert checkpoints.count == 2
    kept = (("kept", tiny.files[layout.CHECKPOINT]),)
    remembered = verify_bundle(
        FolderView(copy), Trust(now=NOW, keyid=key.public.keyid, remembered=kept), name="again"
    )
    assert remembered.exit_code == 0
    assert next(c for c in remembered.checks if c.name == "witness").status == "ok"


def test_a_ledger_that_does_not_continue_its_checkpoint_is_not_sealed_again(copy):
    path = copy / layout.LEDGER
    path.write_bytes(b"".join(line + b"\n" for line in path.read_bytes().splitlines()[:-1]))
    write_reports(copy)
    with pytest.raises(IntegrityError) as refused:
        seal(copy)
    assert refused.value.reference == "ledger-not-the-signed-one"


def test_a_seal_that_fails_leaves_the_earlier_one_as_it_was(tiny, copy, tmp_path):
    """The key of a local run is gone after its seal: a lost seal would be lost evidence."""
    fixtures = tmp_path / "fixtures"
    shutil.copytree(inputs().fixtures, fixtures)
    plan = json.loads(tiny.files[layout.PLAN])
    brief = fixtures / "tasks" / plan["tasks"][0]["digests"]["id"] / "brief.json"
    brief.write_text(brief.read_text().replace('prompt": "', 'prompt": "Please: '))
    before = files_of(copy)
    changed = Inputs(fixtures, inputs().images, inputs().image_lock)
    with pytest.raises(IntegrityError, match="inputs that the plan pins"):
        seal_run(copy, Signer(SigningKey.generate(), "operator"), changed)
    assert files_of(copy) == before
    assert verify_bundle(FolderView(copy), tiny.trust, name="kept").exit_code == 0


def test_a_seal_of_no_name_does_not_replace_an_operators(tiny, copy):
    before = files_of(copy)
    with pytest.raises(UsageError, match=tiny.keyid):
        seal(copy, Signer(SigningKey.generate(), "ephemeral-local"))
    assert files_of(copy) == before


def test_a_run_that_is_whole_and_sealed_is_not_taken_up_again(copy, monkeypatch, capsys):
    before = files_of(copy)
    monkeypatch.setenv("MEMTRIAL_RESULTS", str(copy.parent))
    for words in (["resume", copy.name], ["resume", copy.name, "--full"], ["report", copy.name]):
        assert main(words) == 0
    assert "nothing is left to run" in capsys.readouterr().err
    assert files_of(copy) == before


def test_a_seal_that_dies_half_way_leaves_a_folder_that_says_it_is_not_sealed(copy, monkeypatch):
    def dies(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("orchestrator.pipeline.seal._close", dies)
    with pytest.raises(KeyboardInterrupt):
        seal(copy)
    answer = verify_bundle(FolderView(copy), Trust(now=NOW), name="half")
    assert [check.reference for check in answer.failed] == ["bundle-not-whole"]
    assert "memtrial seal" in (answer.failed[0].hint or "")
    monkeypatch.undo()
    seal(copy)
    assert verify_bundle(FolderView(copy), Trust(now=NOW), name="whole").exit_code == 0


def test_sealing_twice_with_one_key_changes_only_what_has_a_time(copy):
    key = SigningKey.generate()
    seal(copy, Signer(key, "operator"))
    first = files_of(copy)
    seal(copy, Signer(key, "operator"))
    second = files_of(copy)
    timed = {layout.CARD, layout.GUIDE, layout.SBOM, layout.SUMS, layout.SEAL}
    assert {n for n in second if first.get(n) != second[n]} - timed <= {
        n for n in second if n.startswith(("checkpoints/", "keys/", "proofs/from-"))
    }


def test_changed_fixtures_are_not_sealed_in_place_of_the_planned_ones(copy, tmp_path):
    fixtures = tmp_path / "fixtures"
    shutil.copytree(inputs().fixtures, fixtures)
    brief = fixtures / "tasks" / "depotfeed-returns" / "brief.json"
    changed = json.loads(brief.read_bytes())
    changed["prompt"] += " Quickly."
    brief.write_text(json.dumps(changed))
    # A fresh record: the blobs of an earlier seal are not there to help.
    shutil.rmtree(copy / "blobs")
    with pytest.raises(IntegrityError) as refused:
        seal_run(
            copy,
            Signer(SigningKey.generate(), "operator"),
            Inputs(fixtures, inputs().images, None),
        )
    assert refused.value.reference == "inputs-changed"


def test_a_run_that_someone_works_on_is_not_sealed(copy):
    ledger, _, _ = Ledger.open_for_append(copy / layout.LEDGER)
    with pytest.raises(UsageError) as refused:
        seal(copy)
    ledger.close()
    assert refused.value.reference == "run-active"


def test_resume_opens_from_the_signed_checkpoint_and_full_checks_all(copy):
    signed = signed_prefix(copy)
    assert signed is not None
    assert signed.size == len((copy / layout.LEDGER).read_bytes().splitlines())
    run = Run.resume(copy)
    run.close()
    grown = (copy / layout.LEDGER).read_bytes().splitlines()
    assert len(grown) == signed.size + 1
    # A changed blob is no part of the ledger: only --full reads them all.
    blob = next(p for p in sorted((copy / "blobs").rglob("*")) if p.is_file() and p.suffix == "")
    blob.write_bytes(b"changed")
    Run.resume(copy).close()
    with pytest.raises(IntegrityError, match="expected SHA-256"):
        Run.resume(copy, full=True)


def test_resume_refuses_a_checkpoint_that_the_key_beside_it_did_not_sign(copy):
    (copy / layout.KEY).write_bytes(SigningKey.generate().public.pem())
    with pytest.raises(IntegrityError, match="signature"):
        Run.resume(copy)


def test_a_run_of_the_earlier_format_is_read_reported_and_can_be_sealed(tiny, tmp_path):
    """Runs were recorded before there was a seal: plan, ledger, plain blobs and a report, nothing else."""
    folder = tmp_path / "old"
    old = {n: d for n, d in tiny.files.items() if n in {layout.PLAN, layout.LEDGER}}
    for name, data in old.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    shutil.copytree(tiny.folder / "blobs", folder / "blobs")
    for path in (folder / "blobs").rglob("*.gz"):
        import gzip

        path.with_suffix("").write_bytes(gzip.decompress(path.read_bytes()))
        path.unlink()
    refused = verify_bundle(FolderView(folder), Trust(now=NOW), name="old")
    assert [check.reference for check in refused.failed] == ["bundle-not-whole"]
    write_reports(folder)
    assert (folder / layout.REPORT).read_bytes() == tiny.files[layout.REPORT]
    seal(folder)
    assert verify_bundle(FolderView(folder), Trust(now=NOW), name="old").exit_code == 0


def test_the_bill_of_materials_is_valid_cyclonedx_and_names_environment_images_and_packages(eight):
    text = eight.files[layout.SBOM].decode()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    components = json.loads(text)["components"]
    kinds = [item["purl"].split("/")[0] if "purl" in item else item["type"] for item in components]
    assert kinds.count("container") == 4
    assert "pkg:deb" in kinds
    versions = {
        item["name"]: item["version"] for item in components if item["bom-ref"].startswith("pypi:")
    }
    assert versions["pydantic"] == metadata.version("pydantic")


def test_statements_are_in_toto_with_the_promised_predicates_and_names(eight):
    import base64

    lines = eight.files["attestations/0000.intoto.jsonl"].splitlines()
    statements = [json.loads(base64.b64decode(json.loads(line)["payload"])) for line in lines]
    assert [s["predicateType"] for s in statements] == [
        "https://in-toto.io/attestation/test-result/v0.1",
        "https://slsa.dev/provenance/v1",
        "urn:memtrial:predicate:trial-account:v1",
    ]
    record = eight.files["records/0000.json"]
    from orchestrator.core.canonical import sha256_hex

    for statement in statements:
        assert statement["_type"] == "https://in-toto.io/Statement/v1"
        assert statement["subject"] == [
            {"name": "records/0000.json", "digest": {"sha256": sha256_hex(record)}}
        ]
    result = statements[0]["predicate"]
    assert result["result"] in {"PASSED", "FAILED"}
    names = result["passedTests"] + result["failedTests"]
    assert any(name.startswith("FAIL_TO_PASS: ") for name in names)
    assert any(name.startswith("PASS_TO_PASS: ") for name in names)
    dependencies = statements[1]["predicate"]["buildDefinition"]["resolvedDependencies"]
    assert {"plan", "agent-image", "verifier-image", "repository", "history"} <= {
        item["name"] for item in dependencies
    }


def test_every_line_of_a_trial_stands_in_its_record_with_a_proof(eight):
    lines = [json.loads(line) for line in eight.files[layout.LEDGER].splitlines()]
    of_trials = {line["seq"] for line in lines if "trial" in line["body"]}
    records = [json.loads(d) for n, d in eight.files.items() if n.startswith("records/")]
    proofs = [json.loads(d) for n, d in eight.files.items() if n.startswith("proofs/")]
    assert {pin["seq"] for record in records for pin in record["lines"]} == of_trials
    assert {p["seq"] for proof in proofs for p in proof["proofs"]} == of_trials
    assert "memory_step" in {line["body"]["kind"] for line in lines}


def test_a_run_without_any_verdict_is_sealed_and_verified_as_what_it_is(copy, tmp_path):
    folder = tmp_path / "begun"
    folder.mkdir()
    (folder / layout.PLAN).write_bytes((copy / layout.PLAN).read_bytes())
    lines = (copy / layout.LEDGER).read_bytes().splitlines()[:3]
    (folder / layout.LEDGER).write_bytes(b"".join(line + b"\n" for line in lines))
    shutil.copytree(copy / "blobs", folder / "blobs")
    write_reports(folder)
    seal(folder)
    answer = verify_bundle(MemoryView(files_of(folder)), Trust(now=NOW), name="begun")
    assert answer.exit_code == 0, answer.failed
    assert next(c for c in answer.checks if c.name == "verdicts").count == 0


def statement_of(files, number, kind):
    import base64

    lines = files[f"attestations/{number:04d}.intoto.jsonl"].splitlines()
    statements = [json.loads(base64.b64decode(json.loads(line)["payload"])) for line in lines]
    return next(s["predicate"] for s in statements if kind in s["predicateType"])


def test_the_account_of_a_failed_trial_says_to_what_the_report_charges_it(idle):
    rows = json.loads(idle.files[layout.REPORT])["trials"]
    charges = {row["trial"]: row["charge"] for row in rows}
    assert any(charges.values()), "the run must have a failed trial of an arm with memory"
    count = len(rows)
    accounts = [statement_of(idle.files, number, "trial-account") for number in range(count)]
    assert {a["trial"]: a["attribution"] for a in accounts} == charges


def test_the_provenance_of_a_live_trial_names_the_approval_that_its_run_began_under(tmp_path):
    live = record_live_run(tmp_path)
    seal(live.folder)
    files = files_of(live.folder)
    for number in range(2):
        built = statement_of(files, number, "provenance")["buildDefinition"]["resolvedDependencies"]
        named = {item["name"]: item["digest"] for item in built}
        assert named["approval"] == {"sha256": sha256_hex(files[layout.APPROVAL])}


def test_the_provenance_of_a_run_without_approval_names_none(eight):
    built = statement_of(eight.files, 0, "provenance")["buildDefinition"]["resolvedDependencies"]
    assert "approval" not in {item["name"] for item in built}


def test_a_report_of_many_trials_is_read_however_large_they_make_it(tiny):
    report = RunReport.parse(tiny.files[layout.REPORT], where="report")
    (row,) = report.trials
    rows = tuple(row.model_copy(update={"why": f"{n} " + "x" * 9_000}) for n in range(2_000))
    data = report.model_copy(update={"trials": rows}).canonical()
    assert len(data) > MAX_BYTES
    read = Attached.read(lambda _: None, data, trials=len(rows))
    assert len(read.report.trials) == len(rows)
    with pytest.raises(DocumentError):
        Attached.read(lambda _: None, data, trials=1)

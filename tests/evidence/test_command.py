"""Promise: each verb of evidence does what its help says, with the exit codes of the README."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.attest import layout
from orchestrator.cli.main import main
from orchestrator.cli.verify import configure, given_words
from orchestrator.core.errors import IntegrityError, UsageError
from orchestrator.core.keys import SigningKey
from orchestrator.ledger.chain import Ledger
from orchestrator.model.record import RunResumed
from orchestrator.pipeline.mirror import publish_checkpoint
from orchestrator.pipeline.seal import Signer
from tests.recorded import files_of, seal, write_reports

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def results(tiny, tmp_path):
    """A results folder with one sealed run; the folder's name is its run id."""
    folder = tmp_path / "results"
    shutil.copytree(tiny.folder, folder / tiny.folder.name)
    (folder / "latest").symlink_to(tiny.folder.name)
    return folder


def memtrial(results: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "orchestrator", *words],
        env={**os.environ, "MEMTRIAL_RESULTS": str(results), **more},
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )


def test_verify_tells_authentic_unauthenticated_and_refused_apart(results, tiny):
    authentic = memtrial(results, "verify", "latest", "--keyid", tiny.keyid)
    assert authentic.returncode == 0, authentic.stderr
    assert "AUTHENTIC" in authentic.stdout
    alone = memtrial(results, "verify", "latest")
    assert alone.returncode == 0
    assert "self-consistent, not authenticated" in alone.stdout
    last = alone.stdout.splitlines()[-1]
    assert last.startswith("next: ")
    assert "memtrial verify" in last
    other = memtrial(results, "verify", "latest", "--keyid", "0" * 64)
    assert other.returncode == 1
    (results / tiny.folder.name / "report.txt").write_text("all resolved")
    changed = memtrial(results, "verify", "latest", "--keyid", tiny.keyid, "--json")
    assert changed.returncode == 6
    answer = json.loads(changed.stdout)
    assert (answer["standing"], answer["exit_code"]) == ("refused", 6)
    assert {c["status"] for c in answer["checks"][4:]} == {"not_run"}


@pytest.mark.parametrize(("verb", "after"), [("verify", "audit"), ("audit", "verify")])
def test_the_next_command_keeps_the_options_that_were_given(
    results, tiny, tmp_path, capsys, verb, after
):
    kept = tmp_path / "a checkpoint"
    kept.write_bytes(tiny.files[layout.CHECKPOINT])
    folder = str(results / tiny.folder.name)
    options = ["--keyid", tiny.keyid, "--checkpoint", str(kept), "--allow-withheld"]
    options += ["--approver", "1" * 64, "--approver", "2" * 64]
    assert main([verb, folder, *options]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert shlex.split(last)[-len(options) - 2 :] == [after, folder, *options]


def test_an_identity_of_two_words_is_given_on_as_it_was_typed():
    parser = argparse.ArgumentParser()
    configure(parser)
    typed = ["--sigstore-identity", "a person", "an issuer"]
    assert shlex.split(given_words(parser.parse_args(typed))) == typed


def test_the_next_command_asks_for_the_key_that_was_not_given(results, tiny, capsys):
    folder = str(results / tiny.folder.name)
    assert main(["verify", folder, "--approver", "1" * 64]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.endswith(f"verify {folder} --keyid KEYID --approver {'1' * 64}")


def test_verify_names_what_it_cannot_use(results, tmp_path):
    assert memtrial(results, "verify", "latest", "--keyid", "abc").returncode == 2
    told = memtrial(results, "verify", "latest", "--approver", "0" * 64, "--approver", "abc")
    assert told.returncode == 2
    assert "as --approver, found 'abc'" in told.stderr
    assert memtrial(results, "verify", "no-such-run").returncode == 2
    assert memtrial(results, "verify", "latest", "--checkpoint", "/nowhere").returncode == 2
    keys = tmp_path / "keys.json"
    keys.write_text('{"schema_version":1,"keys":[]}')
    assert memtrial(results, "verify", "latest", "--root", str(keys)).returncode == 3


def test_a_trusted_keys_file_authenticates(results, tiny, tmp_path):
    import base64

    keys = tmp_path / "keys.json"
    keys.write_text(
        json.dumps(
            {
                "schema_version": 1,
                "keys": [
                    {
                        "keyid": tiny.keyid,
                        "public_key": base64.b64encode(tiny.key.public.raw).decode(),
                        "valid_from": "2020-01-01T00:00:00Z",
                        "valid_until": "2099-01-01T00:00:00Z",
                    }
                ],
            }
        )
    )
    finished = memtrial(results, "verify", "latest", "--root", str(keys))
    assert finished.returncode == 0, finished.stdout
    assert "AUTHENTIC" in finished.stdout


def test_seal_signs_again_with_the_operators_key_and_sigstore_bundles(results, tmp_path):
    key = tmp_path / "key.pem"
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", key], check=True)
    key.chmod(0o600)
    sealed = memtrial(
        results, "seal", "latest", "--key", str(key), "--sigstore", "project", "--json"
    )
    assert sealed.returncode == 0, sealed.stderr
    keyid = json.loads(sealed.stdout)["keyid"]
    assert keyid == SigningKey.load(key).public.keyid
    answer = memtrial(results, "verify", "latest", "--keyid", keyid, "--json")
    checks = {check["name"]: check for check in json.loads(answer.stdout)["checks"]}
    assert (checks["sigstore"]["status"], checks["sigstore"]["count"]) == ("ok", 4)
    again = memtrial(results, "seal", "latest", "--json", MEMTRIAL_SIGNING_KEY=str(key))
    assert json.loads(again.stdout)["key_label"] == "operator"


def test_the_public_sigstore_instance_is_asked_only_where_there_is_an_identity(results):
    refused = memtrial(results, "seal", "latest", "--sigstore", "public")
    assert refused.returncode == 4
    assert "sigstore-public-unavailable" in refused.stderr
    assert memtrial(results, "verify", "latest").returncode == 0, "the earlier seal still stands"


def test_export_writes_an_archive_that_verifies(results, tiny):
    exported = memtrial(results, "export", "latest", "--json")
    assert exported.returncode == 0, exported.stderr
    path = json.loads(exported.stdout)["path"]
    finished = memtrial(results, "verify", path, "--keyid", tiny.keyid)
    assert finished.returncode == 0, finished.stdout
    assert memtrial(results, "export", "latest").returncode == 2, "the name is taken"
    assert memtrial(results, "export", "latest", "--public").returncode == 2


def test_audit_writes_one_static_escaped_page_with_anomalies_first(results, tiny):
    finished = memtrial(results, "audit", "latest", "--keyid", tiny.keyid, "--json")
    assert finished.returncode == 0, finished.stderr
    page = Path(json.loads(finished.stdout)["page"]).read_text(encoding="utf-8")
    assert "<script" not in page
    assert "http" not in page.replace('http-equiv="Content-Security-Policy"', "")
    places = [
        page.index(f"<h2>{title}") for title in ("Anomalies", "Chain of custody", "Every check")
    ]
    assert places == sorted(places)
    for value in (tiny.keyid, json.loads(finished.stdout)["run_id"]):
        assert value in page
    for digest in (line.split()[0] for line in tiny.files[layout.SUMS].decode().splitlines()):
        assert digest in page
    inside = results / tiny.folder.name / "audit.html"
    assert memtrial(results, "audit", "latest", "--out", str(inside)).returncode == 2
    (results / tiny.folder.name / "<b>.txt").write_text("x")
    refused = memtrial(results, "audit", "latest", "--json")
    assert refused.returncode == 6
    page = Path(json.loads(refused.stdout)["page"]).read_text(encoding="utf-8")
    assert "&lt;b&gt;.txt" in page
    assert "<b>" not in page


def test_report_does_not_break_the_seal(results, tiny):
    assert memtrial(results, "report", "latest").returncode == 0
    assert memtrial(results, "verify", "latest", "--keyid", tiny.keyid).returncode == 0


def test_a_published_checkpoint_shows_a_cut_ledger_that_was_sealed_anew(results, tiny, tmp_path):
    kept = tmp_path / "kept"
    published = memtrial(results, "checkpoint", "publish", "latest", "--to", str(kept), "--json")
    assert published.returncode == 0, published.stderr
    (note,) = kept.rglob("*.checkpoint")
    run = results / tiny.folder.name
    for name in (layout.CHECKPOINT, layout.KEY):
        (run / name).unlink()
    ledger = run / layout.LEDGER
    ledger.write_bytes(b"".join(line + b"\n" for line in ledger.read_bytes().splitlines()[:-1]))
    write_reports(run)
    seal(run, Signer(tiny.key, "operator"))
    assert memtrial(results, "verify", "latest", "--keyid", tiny.keyid).returncode == 0
    told = memtrial(results, "verify", "latest", "--keyid", tiny.keyid, "--checkpoint", str(note))
    assert told.returncode == 6
    assert "ledger-truncated" in told.stdout


@pytest.fixture
def repository(tmp_path):
    path = tmp_path / "mirror"
    subprocess.run(["git", "init", "-q", path], check=True)
    (path / "mine.txt").write_text("not committed")
    return path


@pytest.mark.parametrize("kind", ["folder", "git"])
def test_checkpoints_are_only_added_and_only_of_a_ledger_that_continues(
    results, tiny, tmp_path, repository, kind
):
    target = str(tmp_path / "kept") if kind == "folder" else f"git:{repository}"
    run = results / tiny.folder.name
    first = publish_checkpoint(run, target)
    assert (first.new, first.continued) == (True, 0)
    assert publish_checkpoint(run, target).new is False
    ledger, _, _ = Ledger.open_for_append(run / layout.LEDGER)
    ledger.append(RunResumed(torn_tail_bytes=0))
    ledger.close()
    write_reports(run)
    seal(run)
    second = publish_checkpoint(run, target)
    assert (second.new, second.continued, second.size) == (True, 1, first.size + 1)
    if kind == "git":
        log = subprocess.run(
            ["git", "-C", repository, "log", "--format=%s", "memtrial-checkpoints"],
            check=True,
            capture_output=True,
            text=True,
        ).stdout.splitlines()
        assert len(log) == 2
        assert (repository / "mine.txt").read_text() == "not committed"
    lines = (run / layout.LEDGER).read_bytes().splitlines()
    for name in (layout.CHECKPOINT, layout.KEY):
        (run / name).unlink()
    shutil.rmtree(run / "checkpoints")
    (run / layout.LEDGER).write_bytes(b"".join(line + b"\n" for line in lines[:-2]))
    write_reports(run)
    seal(run)
    with pytest.raises(IntegrityError, match="continues this checkpoint"):
        publish_checkpoint(run, target)


def test_an_address_is_no_place_to_publish_to(results, tiny):
    with pytest.raises(UsageError, match="folder or git:PATH"):
        publish_checkpoint(results / tiny.folder.name, "https://example.org/kept")


def test_a_run_without_seal_and_a_folder_that_is_no_repository_are_refused(results, tiny, tmp_path):
    run = results / tiny.folder.name
    with pytest.raises(UsageError, match="git repository"):
        publish_checkpoint(run, f"git:{tmp_path}")
    (run / layout.CHECKPOINT).unlink()
    with pytest.raises(UsageError, match="sealed run"):
        publish_checkpoint(run, str(tmp_path / "kept"))


def test_deps_verify_finds_the_environment_as_locked(results):
    finished = memtrial(results, "deps", "verify", "--json")
    assert finished.returncode == 0, finished.stdout
    told = json.loads(finished.stdout)
    assert told["counts"]["mismatch"] == told["counts"]["not_pinned"] == 0
    assert told["counts"]["hash_pinned"] >= 20


@pytest.mark.parametrize("option", ["--trusted-root", "--provenance", "--wheels"])
def test_deps_verify_says_that_what_it_was_given_is_not_there(results, option):
    refused = memtrial(results, "deps", "verify", option, "nowhere")
    assert refused.returncode == 2
    assert f"check the path of {option}" in refused.stderr


def test_deps_verify_refuses_a_trusted_root_that_is_none_and_provenance_of_no_pin(
    results, tmp_path
):
    root = tmp_path / "root.json"
    root.write_text("{}")
    refused = memtrial(results, "deps", "verify", "--trusted-root", str(root))
    assert refused.returncode == 3
    assert "trusted-root-malformed" in refused.stderr
    stored = tmp_path / "provenance"
    stored.mkdir()
    case = ROOT / "tests" / "cases" / "provenance"
    shutil.copy(next(case.glob("*.provenance")), stored)
    told = memtrial(results, "deps", "verify", "--provenance", str(stored))
    assert told.returncode == 1
    assert "1 provenance documents of others" in told.stderr


def test_reading_verbs_change_nothing_in_the_bundle(results, tiny, tmp_path):
    run = results / tiny.folder.name
    before = files_of(run)
    memtrial(results, "verify", "latest")
    memtrial(results, "audit", "latest")
    memtrial(results, "export", "latest")
    memtrial(results, "checkpoint", "publish", "latest", "--to", str(tmp_path / "kept"))
    assert files_of(run) == before

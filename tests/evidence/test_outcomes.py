"""Promise: whatever a trial came to, its bundle verifies, and the record of it cannot be prettied."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.attest import layout
from orchestrator.audit.anomalies import anomalies
from orchestrator.audit.page import render_page
from orchestrator.audit.trust import Trust
from orchestrator.audit.verify import examine, verify_bundle
from orchestrator.audit.view import FolderView
from orchestrator.core.errors import EnvironmentMissing
from orchestrator.core.keys import SigningKey
from orchestrator.model.isolation import Inventory, ProcessSeen
from orchestrator.pipeline.seal import Signer
from orchestrator.protocols import VerifyOutcome
from tests.evidence.conftest import NOW
from tests.evidence.finding_operations import FINDINGS
from tests.evidence.tamper import rewrite_record
from tests.recorded import (
    EIGHT,
    TINY,
    Play,
    PlayedSandbox,
    files_of,
    make_plan,
    record_run,
    seal,
    write_reports,
)

ROOT = Path(__file__).resolve().parents[2]


def lost() -> EnvironmentMissing:
    return EnvironmentMissing("engine-lost", "expected an engine, found none", hint="start it")


SHOWN = b"found memtrial-mark-" + b"0" * 32 + b"\n"


def crowded(inventory: Inventory) -> Inventory:
    stray = ProcessSeen(command=("sleep", "9"), descriptors=())
    return inventory.model_copy(update={"processes": (*inventory.processes, stray)})


@pytest.fixture(scope="module")
def troubled(tmp_path_factory):
    """Eight trials: two show a foreign canary, one has a stray process, one is retried, one given up, three sound."""
    plan = make_plan(EIGHT)
    keys = [trial.key for trial in plan.trials]
    faults: dict[tuple[str, str], list[Exception]] = {
        (keys[3], "act"): [lost()],
        (keys[4], "act"): [lost() for _ in range(10)],
    }
    plays = {
        keys[0]: Play(says=SHOWN),
        keys[1]: Play(says=SHOWN),
        keys[2]: Play(stock=crowded),
    }
    folder = record_run(tmp_path_factory.mktemp("troubled"), EIGHT, PlayedSandbox(faults, plays))
    key = SigningKey.generate()
    seal(folder, Signer(key, "operator"))
    return folder, key


def verify(folder, key):
    return verify_bundle(FolderView(folder), Trust(now=NOW, keyid=key.public.keyid), name="run")


def test_a_run_with_every_kind_of_trouble_verifies_as_what_it_is(troubled):
    folder, key = troubled
    answer = verify(folder, key)
    assert answer.exit_code == 0, answer.failed
    verdicts = next(check for check in answer.checks if check.name == "verdicts")
    assert (verdicts.count, verdicts.detail) == (
        6,
        "2 trials have none; 4 from raw reports, 2 condemned by their screening",
    )
    ledger = next(check for check in answer.checks if check.name == "ledger")
    assert (
        "5 attempts without a verdict (1 inadmissible, 4 infra_error), 0 after the agent had acted"
        in ledger.detail
    )


def test_a_record_of_which_an_attempt_is_gone_after_its_agent_had_acted_is_not_called_whole(
    tmp_path,
):
    """What came of it may have been thrown away; why is the record's own word."""
    key = make_plan(TINY).trials[0].key
    folder = record_run(tmp_path, TINY, PlayedSandbox({(key, "harvest"): [lost()]}))
    seal(folder)
    answer = verify_bundle(FolderView(folder), Trust(now=NOW), name="run")
    assert answer.exit_code == 0, answer.failed
    ledger = next(check for check in answer.checks if check.name == "ledger")
    assert ledger.status == "partly"
    assert "1 after the agent had acted" in ledger.detail


class Late(PlayedSandbox):
    """Containers in which every run of tests meets its limit."""

    def verify(self, job, *, trial):
        return VerifyOutcome(True, None, True, None, None, b"played\n"), 1


def test_verdicts_that_hang_on_the_records_own_word_are_not_called_whole(tmp_path):
    folder = record_run(tmp_path, TINY, Late())
    seal(folder)
    answer = verify_bundle(FolderView(folder), Trust(now=NOW), name="run")
    assert answer.exit_code == 0, answer.failed
    verdicts = next(check for check in answer.checks if check.name == "verdicts")
    assert (verdicts.status, verdicts.count, verdicts.detail) == (
        "partly",
        1,
        "by the record's own word, of runs of tests: 2 met a limit",
    )


def test_the_audit_page_puts_every_kind_of_trouble_before_the_checks(troubled):
    folder, key = troubled
    found = examine(FolderView(folder), Trust(now=NOW, keyid=key.public.keyid), name="run")
    assert found.dossier is not None
    keys = [trial.key for trial in found.dossier.plan.trials]
    rows = list(anomalies(found.dossier))
    assert {subject for kind, subject, _ in rows if kind == "misconduct"} == set(keys[:2])
    crowded_trial = found.dossier.plan.trials[2]
    assert [(subject, said) for kind, subject, said in rows if kind == "dropped block"] == [
        (
            f"{crowded_trial.task_id}, epoch {crowded_trial.epoch}, in every arm",
            f"attempt 1 of {crowded_trial.key}: container-not-as-declared",
        )
    ]
    attempts = {subject: said for kind, subject, said in rows if kind == "attempts"}
    assert attempts[keys[3]] == "1 infra_error (engine-lost), 2 completed"
    assert set(attempts) == {keys[3], keys[4]}
    assert [subject for kind, subject, _ in rows if kind == "no end"] == [keys[4]]
    page = render_page(found.answer, found.opened, found.dossier)
    begin, end = page.index("<h2>Anomalies"), page.index("<h2>Chain of custody")
    assert all(said in page[begin:end] for _, _, said in rows)


def _copy(troubled, tmp_path):
    import shutil

    folder = tmp_path / "copy"
    shutil.copytree(troubled[0], folder)
    return folder


def test_misconduct_cannot_be_turned_into_a_completed_trial(troubled, tmp_path):
    folder = _copy(troubled, tmp_path)

    def change(entries, _blobs):
        for entry in entries:
            if entry["body"].get("outcome") == "misconduct":
                entry["body"]["outcome"] = "completed"

    rewrite_record(folder, change, troubled[1])
    answer = verify(folder, troubled[1])
    assert {check.reference for check in answer.failed} >= {"ledger-out-of-order"}


def test_the_verdict_of_misconduct_cannot_be_softened(troubled, tmp_path):
    folder = _copy(troubled, tmp_path)

    def change(entries, blobs):
        from orchestrator.core.canonical import canonical_bytes

        for entry in entries:
            body = entry["body"]
            if body.get("stage") == "grade":
                verdict = json.loads(blobs.get(body["document_sha256"]))
                if any(v["rule"] == "misconduct" for v in verdict["violations"]):
                    tally = verdict["pass_to_pass"]
                    tally |= {"passed": tally["expected"], "missing": []}
                    body["document_sha256"] = blobs.put(canonical_bytes(verdict))
                    softened[body["trial"]] = body["document_sha256"]
            if body["kind"] == "attempt_ended" and body["trial"] in softened:
                body["verdict_sha256"] = softened[body["trial"]]

    softened: dict[str, str] = {}
    rewrite_record(folder, change, troubled[1])
    answer = verify(folder, troubled[1])
    assert [check.reference for check in answer.failed] == ["verdict-differs"]


def test_a_leak_cannot_be_struck_from_the_record_of_a_graded_trial(troubled, tmp_path):
    """A graded trial whose isolation document holds a finding: the harness would have ended it."""
    folder = _copy(troubled, tmp_path)

    def change(entries, blobs):
        from orchestrator.core.canonical import canonical_bytes

        graded = next(e["body"]["trial"] for e in entries if e["body"].get("stage") == "seal")
        finding = {
            "literal_kind": "hidden",
            "literal_sha256": "0" * 64,
            "place": "image",
            "encoding": "plain",
            "offset": 0,
            "caused_by": "harness",
        }
        sha256 = ""
        for entry in entries:
            body = entry["body"]
            if body.get("trial") == graded and body.get("stage") == "isolate":
                proof = json.loads(blobs.get(body["document_sha256"])) | {"findings": [finding]}
                body["document_sha256"] = sha256 = blobs.put(canonical_bytes(proof))
            if body.get("trial") == graded and body.get("stage") == "seal":
                sealed = json.loads(blobs.get(body["document_sha256"]))
                sealed["isolation_sha256"] = sha256
                body["document_sha256"] = blobs.put(canonical_bytes(sealed))

    rewrite_record(folder, change, troubled[1])
    answer = verify(folder, troubled[1])
    assert [(c.name, c.reference) for c in answer.failed] == [
        ("stages", "stages-mixed-up"),
        ("verdicts", "documents-mixed-up"),
    ]


REBUILD = """
import sys
from pathlib import Path
from orchestrator.report.build import build_report
report = build_report(Path(sys.argv[1]))
sys.stdout.buffer.write(report.canonical() + b"\\n")
heavy = {"numpy", "scipy", "docker", "git"} & set(sys.modules)
sys.exit(f"loaded {heavy}" if heavy else 0)
"""
SURROUNDINGS = {
    "as it is": {},
    "another hash seed": {"PYTHONHASHSEED": "12345"},
    "another zone": {"TZ": "Pacific/Kiritimati"},
    "another locale": {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0"},
    "optimised": {"PYTHONOPTIMIZE": "2"},
}


@pytest.mark.parametrize("surroundings", SURROUNDINGS.values(), ids=SURROUNDINGS)
def test_the_report_is_rebuilt_to_the_signed_byte_in_other_surroundings(troubled, surroundings):
    folder = troubled[0]
    finished = subprocess.run(
        [sys.executable, "-c", REBUILD, str(folder)],
        cwd=ROOT,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **surroundings},
        capture_output=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout == files_of(folder)[layout.REPORT]


def test_reports_of_one_record_are_equal_to_the_byte(troubled, tmp_path):
    folder = _copy(troubled, tmp_path)
    before = files_of(folder)
    write_reports(folder)
    assert files_of(folder) == before


def found_in(answer, name="stages"):
    return next(check for check in answer.checks if check.name == name)


def test_a_block_that_a_container_cost_is_told_as_own_word(troubled):
    """The inventory is the account of the machine that ran it."""
    stages = found_in(verify(*troubled))
    assert stages.status == "partly"
    assert stages.detail.startswith(
        "1 attempt ended for a container not as declared, by the record's own word; exit codes"
    )


def test_without_the_runs_own_canary_a_foreign_one_is_told_as_own_word(troubled, tmp_path):
    folder = _copy(troubled, tmp_path)
    (folder / layout.CANARY).unlink()
    seal(folder, Signer(troubled[1], "operator"))
    answer = verify(folder, troubled[1])
    assert answer.exit_code == 0, answer.failed
    stages = found_in(answer)
    assert stages.status == "partly"
    assert "2 found of a canary where the run's own is not kept, by the record's" in stages.detail


def test_without_the_runs_own_canary_none_can_be_found_where_none_stands(eight, tmp_path):
    import shutil

    folder = tmp_path / "copy"
    shutil.copytree(eight.folder, folder)
    (folder / layout.CANARY).unlink()
    rewrite_record(folder, FINDINGS["invent_canary"], eight.key)
    answer = verify(folder, eight.key)
    assert [(c.name, c.reference) for c in answer.failed] == [("stages", "stages-mixed-up")]


def test_a_trial_condemned_for_a_path_of_the_host_is_told_as_own_word(eight, tmp_path):
    """The paths of the machine are in no bundle: nobody else can search for them."""
    import shutil

    folder = tmp_path / "copy"
    shutil.copytree(eight.folder, folder)
    rewrite_record(folder, FINDINGS["invent_host_path"], eight.key)
    answer = verify(folder, eight.key)
    assert answer.exit_code == 0, answer.failed
    stages = found_in(answer)
    assert (stages.status, "1 found of a path of the host, by the record's" in stages.detail) == (
        "partly",
        True,
    )

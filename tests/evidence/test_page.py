"""Promise: the audit page names a command for each check, who signed what, and what each file is."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import replace
from html import escape
from typing import get_args

import pytest

from orchestrator.attest import layout
from orchestrator.audit.anomalies import anomalies
from orchestrator.audit.page import command_of, custody, render_page
from orchestrator.audit.trust import Trust
from orchestrator.audit.verify import Examined, examine
from orchestrator.audit.view import FolderView, MemoryView
from orchestrator.audit.whatis import described_files
from orchestrator.core.canonical import sha256_hex
from orchestrator.core.keys import SigningKey
from orchestrator.model.bundle import Withheld, WithheldFile
from orchestrator.model.plan import Plan
from orchestrator.model.verification import Standing
from orchestrator.pipeline.seal import Signer
from tests.evidence.conftest import NOW
from tests.evidence.tamper import Files
from tests.played_live import record_live_run
from tests.recorded import seal


@pytest.fixture(scope="module")
def examined(eight) -> Examined:
    return examine(FolderView(eight.folder), eight.trust, name="eight")


def test_each_check_has_a_command_that_stands_in_its_row(examined, eight):
    page = render_page(examined.answer, examined.opened, examined.dossier)
    for check in examined.answer.checks:
        command = command_of(check.name, examined.answer)
        row = page[page.index(f"<td>{check.name}</td>", page.index("<h2>Every check")) :]
        assert f"<code>{escape(command)}</code>" in row[: row.index("</tr>")]
        assert command
        if "KEYID" not in command.replace("KEYID-OF-AN-APPROVER", ""):
            continue
        raise AssertionError(f"{check.name}: a key id that is known was left to the reader")


def sh(examined: Examined, check: str, folder) -> str:
    finished = subprocess.run(
        ["sh", "-c", command_of(check, examined.answer)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def test_the_commands_show_what_they_are_there_for(examined, eight):
    assert sh(examined, "plain files", eight.folder) == ""
    assert eight.keyid in sh(examined, "signer", eight.folder)
    assert sh(examined, "seal", eight.folder)
    assert "FAILED" not in sh(examined, "contents", eight.folder)
    assert "memtrial.local/" in sh(examined, "checkpoint", eight.folder)
    said = sh(examined, "ledger", eight.folder)
    lines = re.findall(r"^([0-9a-f]{64})  -$", said, re.MULTILINE)
    named = re.findall(r'"prev_sha256":"([0-9a-f]{64})"', said)
    assert named == ["0" * 64, *lines[:-1]]
    blobs = sh(examined, "blobs", eight.folder)
    pairs = re.findall(r"^([0-9a-f]{64})  -\nblobs/../([0-9a-f]{64})\.gz$", blobs, re.MULTILINE)
    assert pairs
    assert all(found == name for found, name in pairs)
    summary = json.loads(sh(examined, "statements", eight.folder))
    assert summary["predicate"]["run_id"] == eight.folder.name


def test_every_file_is_told_with_what_it_is_and_blobs_by_what_names_them(examined, eight):
    assert examined.opened is not None
    files = {name: said for name, _, said in described_files(examined.opened, examined.dossier)}
    assert set(files) == set(eight.files) - {layout.SUMS, layout.SEAL}
    assert not {name for name, said in files.items() if said in {"not of memtrial", ""}}
    assert not {name for name, said in files.items() if said == "named nowhere"}
    assert examined.dossier is not None
    trial = examined.dossier.plan.trials[0]
    digests = examined.dossier.plan.task(trial.task_id).digests
    by_blob = {name.rpartition("/")[2].removesuffix(".gz"): said for name, said in files.items()}
    assert by_blob[digests.key_sha256] == f"answer key of task {trial.task_id}"
    assert by_blob[digests.history_sha256] == f"history of task {trial.task_id}"
    assert files[layout.record_name(trial.seq)] == f"lines of {trial.key}"
    page = render_page(examined.answer, examined.opened, examined.dossier)
    assert escape(f"answer key of task {trial.task_id}") in page


def test_a_run_without_trouble_has_no_anomaly(examined):
    assert examined.dossier is not None
    assert list(anomalies(examined.dossier)) == []


def test_the_approval_is_shown_as_signed_by_its_approvers_and_not_by_the_seals_key(tmp_path):
    live = record_live_run(tmp_path)
    key = SigningKey.generate()
    seal(live.folder, Signer(key, "operator"))
    found = examine(FolderView(live.folder), Trust(now=NOW, keyid=key.public.keyid), name="live")
    assert found.opened is not None
    assert found.dossier is not None
    approval, plan = custody(found.opened, found.dossier, found.answer)[:2]
    operator = live.case.home.key().public.keyid
    assert approval.signer == f"by the ledger: {operator[:16]}"
    assert approval.sha256 == sha256_hex((live.folder / layout.APPROVAL).read_bytes())
    assert f"--approver {operator}" in approval.command
    assert plan.signer == key.public.keyid[:16]


def without_a_key(eight) -> Files:
    """A public copy that leaves one answer key out."""
    plan = Plan.model_validate_json(eight.files[layout.PLAN])
    sha256 = plan.tasks[0].digests.key_sha256
    gone = next(name for name in eight.files if name.endswith(f"/{sha256}.gz"))
    told = WithheldFile(path=gone, sha256=sha256_hex(eight.files[gone]))
    left = {name: data for name, data in eight.files.items() if name != gone}
    return {**left, layout.WITHHELD: Withheld(files=(told,)).canonical()}


def test_a_copy_with_withheld_files_has_a_page_that_says_so_and_commands_that_accept_it(eight):
    trust = replace(eight.trust, allow_withheld=True)
    found = examine(MemoryView(without_a_key(eight)), trust, name="copy")
    assert found.answer.standing == "authentic_in_part"
    page = render_page(found.answer, found.opened, found.dossier)
    assert "Authentic in part" in page
    assert f"memtrial verify copy --keyid {eight.keyid} --allow-withheld" in page
    assert command_of("plan", found.answer).endswith("--allow-withheld")


@pytest.mark.parametrize("standing", get_args(Standing))
def test_every_standing_has_its_words(examined, standing):
    page = render_page(examined.answer.model_copy(update={"standing": standing}), None, None)
    assert standing.replace("_", " ") in page.lower().replace("-", " ")


def test_the_chain_says_of_the_report_what_its_check_found(examined):
    assert examined.opened is not None
    assert examined.dossier is not None
    told = "every figure rebuilt; the words are those of another"
    checks = tuple(
        check.model_copy(update={"status": "partly", "detail": told})
        if check.name == "report"
        else check
        for check in examined.answer.checks
    )
    answer = examined.answer.model_copy(update={"checks": checks})
    (report,) = [
        link for link in custody(examined.opened, examined.dossier, answer) if link.what == "report"
    ]
    assert report.said == f"partly, 2 checked: {told}"

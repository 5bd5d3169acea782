"""Promise: a run whose change does not build, in a language that builds, verifies, and why cannot be invented."""

from __future__ import annotations

import json
import shutil

import pytest

from orchestrator.audit.trust import Trust
from orchestrator.audit.verify import verify_bundle
from orchestrator.audit.view import FolderView
from orchestrator.core.canonical import canonical_bytes
from orchestrator.core.keys import SigningKey
from orchestrator.ledger.blobs import BlobStore
from orchestrator.pipeline.options import PlanRequest
from orchestrator.protocols import VerifyOutcome
from orchestrator.scoring.suites.values import VALUES
from tests.evidence.conftest import NOW
from tests.evidence.insider_operations import keep, rebind, stage_of, trials_of
from tests.evidence.tamper import rewrite_record
from tests.recorded import PlayedSandbox, record_run, seal
from tests.unit.audit.test_ended_runs import UNBUILT, steps


class Unbuilt(PlayedSandbox):
    """Containers in which no suite can be built."""

    def __init__(self, part):
        super().__init__()
        self._part = part

    def verify(self, job, *, trial):
        values = [] if job.phase == "pass_to_pass" else [(VALUES, 0, b"")]
        report = steps(self._part, *values)
        return VerifyOutcome(True, None, False, 0, report, b"played\n"), 1


@pytest.fixture(scope="module", params=UNBUILT, ids=[task for task, _ in UNBUILT])
def unbuilt(request, tmp_path_factory):
    task_id, part = request.param
    asked = PlanRequest(
        agents=("follower",), tasks=(task_id,), conditions=("curated_file_budgeted",)
    )
    folder = record_run(tmp_path_factory.mktemp("unbuilt"), asked, Unbuilt(part))
    seal(folder)
    return folder


def verify(folder):
    return verify_bundle(FolderView(folder), Trust(now=NOW), name="unbuilt")


def test_a_run_whose_change_does_not_build_verifies_by_its_own_reports(unbuilt):
    answer = verify(unbuilt)
    assert answer.failed == ()
    verdicts = next(check for check in answer.checks if check.name == "verdicts")
    assert (verdicts.status, verdicts.detail) == ("ok", "each from its raw reports")


def test_why_it_does_not_build_cannot_be_invented(unbuilt, tmp_path):
    def other_error(entries, blobs: BlobStore) -> None:
        trial = trials_of(entries)[0]
        body = stage_of(entries, trial, "grade")
        artifact = next(a for a in body["artifacts"] if a["name"] == "pass-to-pass-tests")
        report = json.loads(blobs.get(artifact["sha256"]))
        report["compile_error"] = "the machine was full"
        keep(blobs, body, "pass-to-pass-tests", canonical_bytes(report))
        rebind(entries, blobs, trial)

    folder = tmp_path / unbuilt.name
    shutil.copytree(unbuilt, folder)
    rewrite_record(folder, other_error, SigningKey.generate())
    answer = verify(folder)
    assert [check.reference for check in answer.failed] == ["test-report-differs"]

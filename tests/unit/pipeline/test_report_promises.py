"""Promise: a report checks the record behind it, says what it could not do, and shows no empty figures."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from orchestrator.cli.main import main
from orchestrator.core.errors import IntegrityError
from orchestrator.ledger.blobs import blob_paths
from orchestrator.ledger.chain import read_entries
from orchestrator.model.record import StageDone
from orchestrator.pipeline.run import Run
from orchestrator.report.build import build_report
from orchestrator.report.terminal import render_report, render_table, render_times
from tests.fakes.sandbox import FakeSandbox

ONE = {"tasks": ("depotfeed-returns",)}


def named_blobs(run: Run) -> list[str]:
    bodies = [entry.body for entry in read_entries(run.folder / "ledger.jsonl")[0]]
    return [
        sha256
        for body in bodies
        if isinstance(body, StageDone)
        for sha256 in (body.document_sha256, *(a.sha256 for a in body.artifacts))
    ]


def blob_file(run: Run, sha256: str) -> Path:
    paths = (run.folder / "blobs" / name for name in blob_paths(sha256))
    return next(path for path in paths if path.exists())


def test_each_blob_that_the_ledger_names_is_checked_and_a_bad_one_is_named(
    make_plan, run_with, capsys
):
    run = run_with(make_plan(**ONE), FakeSandbox())
    for sha256 in set(named_blobs(run)):
        path = blob_file(run, sha256)
        kept = path.read_bytes()
        path.write_bytes(kept + b"x")
        with pytest.raises(IntegrityError, match=sha256) as changed:
            build_report(run.folder)
        path.unlink()
        with pytest.raises(IntegrityError, match=sha256) as missing:
            build_report(run.folder)
        path.write_bytes(kept)
        # Bytes behind a compressed blob make its file unreadable before they can make it another.
        assert changed.value.reference in {"blob-changed", "blob-unreadable"}
        assert missing.value.reference == "blob-missing"
    sha256 = named_blobs(run)[0]
    blob_file(run, sha256).unlink()
    assert main(["report", str(run.folder)]) == 6
    assert sha256 in capsys.readouterr().err


def test_a_run_whose_plan_is_gone_is_an_integrity_failure_for_report_and_resume(
    make_plan, run_with, capsys
):
    run = run_with(make_plan(**ONE), FakeSandbox())
    (run.folder / "plan.json").unlink()
    assert main(["report", str(run.folder)]) == 6
    assert "plan.json" in capsys.readouterr().err
    with pytest.raises(IntegrityError, match=r"plan\.json"):
        Run.resume(run.folder)


def test_a_copy_that_takes_no_file_gives_its_table_and_a_remark(
    make_plan, run_with, capsys, monkeypatch
):
    run = run_with(make_plan(**ONE), FakeSandbox())

    def refuse(*_: object, **__: object) -> None:
        raise OSError(30, os.strerror(30))

    monkeypatch.setattr("orchestrator.core.files.write_atomic", refuse)
    assert main(["report", str(run.folder)]) == 0
    out, err = capsys.readouterr()
    assert "no_memory" in out
    assert "was not stored" in err
    assert "Read-only file system" in err


def test_a_report_names_another_step_than_itself(make_plan, run_with, capsys):
    run = run_with(make_plan(**ONE), FakeSandbox())
    assert main(["report", str(run.folder)]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("next: ")
    assert " report " not in last


def test_trials_that_did_not_run_are_one_line_and_empty_cells_a_dash(make_plan, tmp_path):
    run = Run.create(tmp_path, make_plan(epochs=8), engine="fake", workers=2)
    report = build_report(run.folder)
    run.close()
    text = render_report(report)
    assert "  24 trials not run yet\n" in text
    assert text.count("not run yet") == 1
    assert " 0/0" not in text
    assert "- (24 open)" in text


def test_an_unfinished_run_that_nobody_holds_is_continued_under_the_name_it_was_given(
    make_plan, tmp_path, capsys
):
    run = Run.create(tmp_path, make_plan(**ONE), engine="fake", workers=2)
    assert main(["report", str(run.folder)]) == 8
    assert "another process works on it" in capsys.readouterr().err
    run.close()
    assert main(["report", str(run.folder)]) == 8
    said = capsys.readouterr().err
    assert "1 of 1 trial has no verdict" in said
    assert f"memtrial resume {run.folder}" in said


@pytest.mark.parametrize("width", [41, 60, 80])
def test_a_narrow_table_goes_without_columns_and_says_so(make_plan, run_with, width):
    run = run_with(make_plan(**ONE), FakeSandbox())
    *table, remark = render_table(build_report(run.folder), width).splitlines()
    assert all(len(line) <= width for line in table)
    assert "wall s" in remark if width < 80 else True


def test_the_ratio_is_left_out_where_it_means_nothing(make_plan, run_with):
    run = run_with(make_plan(**ONE, epochs=4), FakeSandbox())
    whole = build_report(run.folder).model_copy(update={"wall_ms": 3000, "container_ms": 5000})
    assert "ratio 1.20 (wall to steps" in render_times(whole)
    assert "bare container steps 2.5 s (per worker" in render_times(whole)
    for change in ({"processes": 2}, {"complete": False}, {"workers": 3}):
        told = render_times(whole.model_copy(update=change))
        assert "ratio" not in told
        assert told.startswith("Wall 3.0 s with ")

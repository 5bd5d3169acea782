"""Promise: whatever a user gives or lacks is refused in three parts with its exit code, never a traceback."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.cli import render
from orchestrator.cli.command import here, own_command
from orchestrator.cli.main import fault_of_machine, main
from orchestrator.core.errors import EnvironmentMissing, UsageError
from orchestrator.core.files import require_writable
from orchestrator.ledger.chain import Ledger
from orchestrator.ledger.lock import is_worked_on

PLAN = ("plan", "--agent", "noop")


def refused(capsys, *words: str) -> tuple[int, str]:
    """Runs a verb; returns its exit code and reference after checking the form of the error."""
    code = main([*words, "--json"])
    out, err = capsys.readouterr()
    error = json.loads(out)["error"]
    assert error["exit_code"] == code
    assert "expected" in error["message"]
    assert "found" in error["message"]
    assert error["hint"]
    assert f"({error['reference']}, exit {code})" in err
    assert "Traceback" not in err
    return code, error["reference"]


@pytest.mark.parametrize(
    ("words", "reference"),
    [
        ((*PLAN, "--namespace", "Bad Name"), "namespace-invalid"),
        ((*PLAN, "--namespace", ""), "namespace-invalid"),
        ((*PLAN, "--epochs", "many"), "arguments-invalid"),
        ((*PLAN, "--epochs", "0"), "epochs-out-of-range"),
        ((*PLAN, "--seed", str(2**60)), "seed-out-of-range"),
        ((*PLAN, "--matrix", "some"), "arguments-invalid"),
        ((*PLAN, "--unknown"), "arguments-invalid"),
        (("plan", "--agent", "nobody", "--model", "m"), "agent-unknown"),
        (("run",), "arguments-invalid"),
        (("run", "x", "--workers", "two"), "arguments-invalid"),
        (("report", "x" * 300), "path-too-long"),
        (("reprot",), "verb-unknown"),
    ],
)
def test_wrong_arguments_are_a_usage_error_of_the_usual_form(capsys, results, words, reference):
    assert refused(capsys, *words) == (2, reference)


def test_an_out_that_cannot_be_a_file_is_refused_and_no_folder_is_made(capsys, tmp_path, results):
    assert refused(capsys, *PLAN, "--out", str(tmp_path)) == (2, "out-is-folder")
    missing = tmp_path / "new" / "plan.json"
    assert refused(capsys, *PLAN, "--out", str(missing)) == (2, "out-folder-missing")
    assert not missing.parent.exists()
    assert refused(capsys, *PLAN, "--out", "/dev/null") == (2, "out-not-a-file")


@pytest.mark.parametrize("verb", [("smoke",), (*PLAN, "--out", "/proc/plan.json")])
def test_a_folder_that_takes_no_file_is_refused_before_anything_starts(capsys, monkeypatch, verb):
    monkeypatch.setenv("MEMTRIAL_RESULTS", "/proc/results")
    # No engine is asked: none answers here.
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent.sock")
    assert refused(capsys, *verb) == (4, "folder-not-writable")


def test_the_probe_of_a_folder_leaves_nothing(tmp_path):
    require_writable(tmp_path / "results" / "deep", "runs")
    assert list(tmp_path.iterdir()) == []


def test_doctor_says_whether_results_takes_files(capsys, monkeypatch):
    monkeypatch.setenv("MEMTRIAL_RESULTS", "/proc/results")
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent.sock")
    assert main(["doctor", "--json"]) == 4
    checks = {c["name"]: c["ok"] for c in json.loads(capsys.readouterr().out)["checks"]}
    assert checks["results"] is False


def test_run_of_a_folder_says_that_it_is_one_and_what_to_run(capsys, tmp_path):
    (tmp_path / "plan.json").write_text("{}")
    assert main(["run", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert "found a folder" in said
    assert f"memtrial run {tmp_path}/plan.json" in said


def test_report_without_runs_says_so_and_how_to_make_one(capsys, results):
    assert main(["report"]) == 2
    said = capsys.readouterr().err
    assert "none yet" in said
    assert "memtrial smoke" in said


def test_a_workers_number_below_zero_is_refused(capsys, results, tmp_path):
    assert main(["smoke", "--workers", "-3"]) == 2
    assert "found -3" in capsys.readouterr().err


@pytest.mark.parametrize("verb", [["tasks"], ["--help"], ["plan", "--help"], ["tasks", "--json"]])
def test_a_full_disk_behind_standard_output_is_exit_4_and_no_traceback(verb):
    with Path("/dev/full").open("wb") as full:
        finished = subprocess.run(
            [sys.executable, "-m", "orchestrator", *verb],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert finished.returncode == 4, finished.stderr
    assert "output-not-written" in finished.stderr
    assert "Traceback" not in finished.stderr
    assert "Exception ignored" not in finished.stderr


@pytest.mark.parametrize(
    "number", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.ENOTDIR, errno.ENAMETOOLONG]
)
def test_what_the_system_refuses_is_no_bug_of_memtrial(number):
    kind = UsageError if number == errno.ENAMETOOLONG else EnvironmentMissing
    assert isinstance(fault_of_machine(OSError(number, os.strerror(number), "/x")), kind)
    assert fault_of_machine(ValueError()) is None


def test_a_command_that_is_not_on_path_is_named_by_its_path(monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    own = own_command()
    assert Path(own.split()[0]).exists()
    assert here("next: memtrial smoke") == f"next: {own} smoke"
    assert here("run `memtrial images`") == f"run `{own} images`"
    assert here("This is memtrial and memtrial run") == "This is memtrial and memtrial run"


@pytest.mark.parametrize("place", ["/", "."])
def test_a_command_that_is_named_by_its_path_works_from_where_the_user_is(monkeypatch, place):
    monkeypatch.setenv("PATH", "/nonexistent")
    bin_folder = Path(sys.executable).parent
    monkeypatch.chdir(bin_folder if place == "." else place)
    own = own_command()
    assert own.startswith(("/", "./"))
    assert subprocess.run(f"{own} --version", shell=True, check=False).returncode == 0


def test_a_run_that_another_process_holds_is_told_apart_from_a_dead_one(tmp_path):
    path = tmp_path / "ledger.jsonl"
    ledger = Ledger.create(path)
    assert is_worked_on(path)
    ledger.close()
    assert not is_worked_on(path)
    assert not is_worked_on(tmp_path / "none")


@pytest.mark.parametrize("columns", ["40", "60", "100"])
def test_lists_keep_to_the_width_of_the_terminal(capsys, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    assert main(["tasks"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(len(line) <= int(columns) for line in lines if not line.startswith("next:"))


def test_where_the_output_is_no_terminal_nothing_is_wrapped(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    assert render.columns() is None


def test_help_of_plan_explains_the_sets(capsys):
    assert main(["plan", "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "every task of the fixtures" in shown
    assert "those that a claim may rest on" in shown

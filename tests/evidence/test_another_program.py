"""Promise: a bundle that another memtrial made is told by its figures; only its words may differ, and that is said."""

from __future__ import annotations

import json
import shutil

import pytest

from orchestrator.attest import layout
from orchestrator.audit.verify import verify_bundle
from orchestrator.audit.view import FolderView
from orchestrator.cli.main import main
from orchestrator.core.canonical import canonical_bytes
from orchestrator.pipeline.options import PlanRequest
from orchestrator.pipeline.seal import Signer
from tests.evidence.conftest import sealed_run
from tests.recorded import TINY, seal


@pytest.fixture
def copy(tiny, tmp_path):
    folder = tmp_path / tiny.folder.name
    shutil.copytree(tiny.folder, folder)
    return folder


def told_otherwise(folder, tiny, change) -> None:
    path = folder / layout.REPORT
    report = json.loads(path.read_bytes())
    change(report)
    path.write_bytes(canonical_bytes(report) + b"\n")
    seal(folder, Signer(tiny.key, "operator"))


def reworded(report) -> None:
    report["trials"][0]["why"] = "it was so"


def embellished(report) -> None:
    report["trials"][0]["wall_ms"] += 1


@pytest.mark.parametrize(
    ("change", "program", "status"),
    [
        (reworded, "f" * 64, "partly"),
        (embellished, "f" * 64, "failed"),
        (reworded, None, "failed"),
    ],
    ids=["other words of another program", "other figures", "other words of this program"],
)
def test_a_report_may_differ_in_words_alone_and_only_by_another_program(
    copy, tiny, monkeypatch, change, program, status
):
    with monkeypatch.context() as patch:
        if program:
            patch.setattr("orchestrator.pipeline.seal.program_sha256", lambda: program)
        told_otherwise(copy, tiny, change)
    answer = verify_bundle(FolderView(copy), tiny.trust, name="b")
    report = next(check for check in answer.checks if check.name == "report")
    assert report.status == status
    if program:
        assert program[:16] in f"{report.detail} {report.hint}"


OTHER = "f" * 64


def by_another_program(copy, tiny, monkeypatch, change_report=None, change_text=None):
    """Seals as another program would that words the report otherwise; returns the check of the report."""
    if change_text is not None:
        path = copy / layout.REPORT_TEXT
        before = path.read_text()
        path.write_text(change_text(before))
        assert path.read_text() != before
    with monkeypatch.context() as patch:
        patch.setattr("orchestrator.pipeline.seal.program_sha256", lambda: OTHER)
        told_otherwise(copy, tiny, change_report or (lambda _: None))
    answer = verify_bundle(FolderView(copy), tiny.trust, name="b")
    return next(check for check in answer.checks if check.name == "report")


def silent(report) -> None:
    del report["limitations"][0]


def boasting(report) -> None:
    report["limitations"].append("of 977 tasks")


def explained(report) -> None:
    report["trials"][0]["why"] = "977 of 977 tests pass"


@pytest.mark.parametrize("change", [silent, boasting, explained])
def test_no_program_may_leave_out_a_limitation_or_word_a_figure_of_its_own(
    copy, tiny, monkeypatch, change
):
    report = by_another_program(copy, tiny, monkeypatch, change)
    assert (report.status, report.reference) == ("failed", "report-differs")


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("1/1", "9/9"),
        lambda text: text + "Of 977 trials all were resolved.\n",
        lambda text: "\n".join(line for line in text.splitlines() if "1/1" not in line),
        lambda _: "All is well.\n",
        lambda text: text.replace("memory F2P", "P2P").replace("F2P     P2P", "F2P  memory F2P"),
        lambda text: text.replace("  1/1", " -1/1", 1),
        lambda text: text.replace("does not show:", "does not show: .95 of it"),
        lambda text: text.replace("does not show:", "does not show: x5"),
        lambda text: text.replace("does not show:", "does not show of follower:"),
    ],
    ids=[
        "another figure",
        "one more",
        "a row left out",
        "none",
        "other headings",
        "another sign",
        "a fraction",
        "a factor",
        "an arm's name",
    ],
)
def test_no_program_may_tell_other_figures_in_the_report_in_words(copy, tiny, monkeypatch, change):
    report = by_another_program(copy, tiny, monkeypatch, change_text=change)
    assert (report.status, report.reference) == ("failed", "report-differs")


def test_words_of_another_program_are_told_with_what_was_rebuilt_beside_them(
    copy, tiny, monkeypatch
):
    report = by_another_program(
        copy, tiny, monkeypatch, change_text=lambda text: text.replace("does not show", "hides")
    )
    assert (report.status, report.count) == ("partly", 1)
    assert "every figure in report.txt follows" in report.detail
    assert "report.json" not in report.detail


@pytest.fixture(scope="module")
def two_arms(tmp_path_factory):
    """Two trials that only their arms tell apart."""
    request = PlanRequest(
        agents=("follower",), tasks=TINY.tasks, conditions=("no_memory", "curated_file_budgeted")
    )
    return sealed_run(tmp_path_factory.mktemp("two-arms"), request)


def test_no_program_may_give_each_arm_the_figures_of_the_other(two_arms, tmp_path, monkeypatch):
    folder = tmp_path / two_arms.folder.name
    shutil.copytree(two_arms.folder, folder)

    def swapped(text: str) -> str:
        names = "no_memory            ", "curated_file_budgeted"
        head, first, second = text.partition(names[0])
        return head + names[1] + second.replace(names[1], names[0], 1) if first else text

    report = by_another_program(folder, two_arms, monkeypatch, change_text=swapped)
    assert (report.status, report.reference) == ("failed", "report-differs")


def test_no_program_may_leave_a_limitation_out_of_the_report_in_words(copy, tiny, monkeypatch):
    def silent_text(text: str) -> str:
        return "\n".join(line for line in text.splitlines() if "  - Scripted" not in line)

    report = by_another_program(copy, tiny, monkeypatch, change_text=silent_text)
    assert (report.status, report.reference) == ("failed", "report-differs")


def test_a_program_may_wrap_its_text(copy, tiny, monkeypatch):
    def wrapped(text: str) -> str:
        return text.replace("Scripted agents know", "Scripted agents\n    know")

    report = by_another_program(copy, tiny, monkeypatch, change_text=wrapped)
    assert (report.status, report.count) == ("partly", 1)


def test_a_program_may_word_why_a_trial_is_charged_and_what_maintenance_lacks(
    idle, tmp_path, monkeypatch
):
    folder = tmp_path / idle.folder.name
    shutil.copytree(idle.folder, folder)

    def otherwise(report) -> None:
        charged = [row for row in report["trials"] if row["charge"]]
        for row in charged:
            row["charge"]["evidence"] = ["it was not used"]
        for row in report["maintenance"]:
            row["why"] = "nobody wrote it down"
        assert charged
        assert report["maintenance"]

    report = by_another_program(folder, idle, monkeypatch, otherwise)
    assert report.status == "partly", report


@pytest.mark.parametrize("place", ["charge", "maintenance"])
def test_no_program_may_word_a_figure_of_its_own_there(idle, tmp_path, monkeypatch, place):
    folder = tmp_path / idle.folder.name
    shutil.copytree(idle.folder, folder)

    def boasting_there(report) -> None:
        if place == "charge":
            row = next(row for row in report["trials"] if row["charge"])
            row["charge"]["evidence"] = ["977 of 977 were not used"]
        else:
            report["maintenance"][0]["why"] = "977 files"

    report = by_another_program(folder, idle, monkeypatch, boasting_there)
    assert (report.status, report.reference) == ("failed", "report-differs")


def test_a_guide_of_another_program_names_no_other_key(copy, tiny, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("orchestrator.pipeline.seal.program_sha256", lambda: OTHER)
        patch.setattr("orchestrator.attest.handout._GUIDE", f"Verify it with {'0' * 64}.\n")
        seal(copy, Signer(tiny.key, "operator"))
    answer = verify_bundle(FolderView(copy), tiny.trust, name="b")
    assert [check.reference for check in answer.failed] == ["handout-differs"]


def test_a_guide_of_another_program_is_told_and_a_record_card_is_not_excused(
    copy, tiny, monkeypatch
):
    with monkeypatch.context() as patch:
        patch.setattr("orchestrator.pipeline.seal.program_sha256", lambda: "f" * 64)
        patch.setattr("orchestrator.attest.handout._GUIDE", "Verify it.\n")
        seal(copy, Signer(tiny.key, "operator"))
    answer = verify_bundle(FolderView(copy), tiny.trust, name="b")
    assert answer.exit_code == 0, answer.failed
    handouts = next(check for check in answer.checks if check.name == "handouts")
    assert handouts.status == "partly"
    assert "VERIFY.md" in handouts.detail


@pytest.mark.parametrize("word", ["verify", "audit"])
def test_the_bundle_in_the_folder_where_one_stands_is_the_one_that_is_meant(
    copy, tiny, tmp_path, monkeypatch, capsys, word
):
    """VERIFY.md says `memtrial verify .`; the results folder may hold other runs."""
    results = tmp_path / "results"
    results.mkdir()
    monkeypatch.setenv("MEMTRIAL_RESULTS", str(results))
    monkeypatch.chdir(copy)
    out = [] if word == "verify" else ["--out", str(tmp_path / "page.html")]
    assert main([word, ".", "--keyid", tiny.keyid.upper(), *out]) == 0, capsys.readouterr()


def test_an_empty_folder_is_refused(copy, tiny):
    """No list can name it, and it may be a place to put something later."""
    (copy / "gateway").mkdir(exist_ok=True)
    answer = verify_bundle(FolderView(copy), tiny.trust, name="b")
    assert [check.reference for check in answer.failed] == ["bundle-not-plain"]


def test_a_name_that_is_no_run_is_refused_with_the_next_command(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MEMTRIAL_RESULTS", str(tmp_path))
    assert main(["verify", "latest"]) == 2
    assert "memtrial smoke" in capsys.readouterr().err

"""The verbs about tasks and sources answer a person and a program, and refuse by name."""

from __future__ import annotations

import json

import pytest

from orchestrator.cli.main import main


def answer(capsys, *words):
    code = main(list(words))
    return code, capsys.readouterr().out


def test_tasks_are_listed_with_language_and_tests(capsys):
    code, out = answer(capsys, "tasks")
    assert code == 0
    assert "rostertext-board-line" in out
    assert "memtrial tasks show" in out.splitlines()[-1]


def test_list_tasks_is_the_same_list(capsys):
    assert answer(capsys, "list", "tasks") == answer(capsys, "tasks", "list")


@pytest.mark.parametrize("what", ["conditions", "sources"])
def test_conditions_and_sources_are_listed_too(capsys, what):
    code, out = answer(capsys, "list", what, "--json")
    assert code == 0
    assert len(json.loads(out)) >= 3


def test_a_task_is_shown_as_a_person_reads_it(capsys):
    code, out = answer(capsys, "tasks", "show", "rostertext-board-line")
    assert code == 0
    for part in ("Prompt", "Timeline", "Facts", "Hidden tests", "Difficulty", "full stop"):
        assert part in out
    assert "list a gives 'Maud Lind 7.00-15.00'" in " ".join(out.split())


@pytest.mark.parametrize(
    ("task", "forgeable"), [("rostertext-board-line", True), ("depotfeed-returns", False)]
)
def test_showing_a_task_says_whether_code_under_test_can_forge_a_capability_test(
    capsys, task, forgeable
):
    """Where hidden tests share a process with it, it can hand over what everybody knows."""
    _, out = answer(capsys, "tasks", "show", task)
    said = "hand over what capability tests expect" in " ".join(out.split())
    assert said is forgeable


def test_a_checkout_to_make_patches_in_is_written_and_the_last_line_says_how(capsys, tmp_path):
    code, out = answer(capsys, "tasks", "checkout", "rostertext-board-line", str(tmp_path / "new"))
    assert code == 0
    assert (tmp_path / "new/src/times.ts").is_file()
    assert "git -C" in out.splitlines()[-1]
    assert main(["tasks", "checkout", "rostertext-board-line", str(tmp_path / "new")]) == 2


def test_after_the_checks_on_paper_comes_the_whole_validation(capsys):
    _, out = answer(capsys, "tasks", "validate", "rostertext-board-line", "--paper")
    assert out.rstrip().endswith("tasks validate rostertext-board-line")


def test_the_key_can_be_left_out(capsys):
    _, out = answer(capsys, "tasks", "show", "rostertext-board-line", "--no-key")
    assert "Facts" not in out
    assert "hidden boardLine" not in out
    _, document = answer(capsys, "tasks", "show", "rostertext-board-line", "--no-key", "--json")
    assert "key" not in json.loads(document)


def test_an_unknown_task_names_the_closest(capsys):
    assert main(["tasks", "show", "rostertext-board"]) == 2
    assert "rostertext-board-line" in capsys.readouterr().err


def test_validation_on_paper_gives_the_documented_shape(capsys):
    code, out = answer(capsys, "tasks", "validate", "rostertext-board-line", "--paper", "--json")
    report = json.loads(out)
    assert code == 0
    assert len(report["digest"]) == 64
    assert {"id", "ok", "checks"} <= set(report["tasks"][0])
    assert {"name", "ok", "evidence"} == set(report["tasks"][0]["checks"][0])


@pytest.mark.parametrize(
    "words",
    [
        ["tasks", "validate"],
        ["tasks", "validate", "--all", "--repeats", "1"],
        ["tasks", "validate", "--all", "--paper", "--write"],
        ["sources", "export"],
        ["tasks", "import", "remem-pack", "/nonexistent", "--out", "/nonexistent-out"],
    ],
)
def test_a_request_that_makes_no_sense_is_usage(words, capsys):
    assert main(words) == 2
    assert "next:" in capsys.readouterr().err


def test_a_pack_outside_the_repository_is_given_by_path(tmp_path, capsys):
    import shutil

    from orchestrator.core.places import fixtures_root

    for part in ("tasks/ferrytimes-service-day", "sources", "vendored/ferrytimes"):
        shutil.copytree(fixtures_root() / part, tmp_path / part)
    code, out = answer(capsys, "tasks", "list", "--pack", str(tmp_path))
    assert code == 0
    assert "ferrytimes-service-day" in out
    words = ["tasks", "validate", "--pack", str(tmp_path), "--all", "--paper"]
    assert main(words) == 0

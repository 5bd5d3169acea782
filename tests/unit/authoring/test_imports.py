"""Tasks of other benchmarks become ordinary task folders, or are refused by the field at fault with nothing written."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import textwrap

import pytest

from orchestrator.core.errors import DocumentError
from orchestrator.pipeline.authoring.imports import import_tasks
from orchestrator.pipeline.authoring.swebench import junit_id
from orchestrator.sources.loader import list_tasks, load_task

# --- remem ---------------------------------------------------------------------------------------------

EVENT = {
    "event_id": "evt-0",
    "timestamp_epoch": 1_760_000_000,
    "role": "user",
    "sanitized_content": "Pier names are written in capitals on tickets.",
    "tool_name": None,
    "sanitized_tool_input": None,
    "sanitized_tool_output": None,
    "host_boundary": "user_message",
}
REMEM_TASK = {
    "id": "pier-names",
    "category": "prior_decision_dependency",
    "smoke": True,
    "prompt": "Write pier names as agreed.",
    "timeout_ms": 180000,
    "allowed_paths": ["demo/piers.py", "tests"],
    "forbidden_paths": ["README.md"],
    "score": {
        "commands": [["python3", "-m", "unittest", "tests.test_piers_hidden"]],
        "required_patch_patterns": ["upper("],
        "forbidden_patch_patterns": [],
        "hidden_files": {
            "tests/test_piers_hidden.py": "import unittest\nfrom demo.piers import pier\n\nclass Hidden(unittest.TestCase):\n    def test_capitals(self):\n        self.assertEqual(pier('east'), 'EAST')\n"
        },
    },
    "history_episodes": [
        {
            "episode_id": "e",
            "reference_time_epoch": 1_760_000_000,
            "raw_events": [EVENT],
            "summary": "THE ANSWER IN SHORT",
            "expected_memory_facts": ["fact:capitals"],
            "memories": [{"title": "READY MADE", "text": "x", "memory_type": "procedure", "topic_key": "k", "files": []}],
        }
    ],
    "gold_memory": {"required_facts": ["fact:capitals"], "forbidden_facts": [], "supporting_event_ids": ["evt-0"]},
}  # fmt: skip
PACK = {
    "version": 1,
    "repo": {
        "kind": "inline_python",
        "base_commit": "fixture:x",
        "files": {
            "demo/__init__.py": "",
            "demo/piers.py": "def pier(name):\n    return name\n",
            "tests/__init__.py": "",
            "tests/test_visible.py": "import unittest\nfrom demo.piers import pier\n\nclass Visible(unittest.TestCase):\n    def test_is_text(self):\n        self.assertIsInstance(pier('a'), str)\n",
        },
    },
    "curated_context": "THE CURATED ANSWER",
    "tasks": [REMEM_TASK],
}  # fmt: skip


def remem(tmp_path, change=lambda _: None):
    pack = copy.deepcopy(PACK)
    change(pack)
    path = tmp_path / "tasks.json"
    path.write_text(json.dumps(pack), encoding="utf-8")
    return import_tasks("remem-pack", path, tmp_path / "out"), tmp_path / "out"


def every_byte(folder):
    return b"".join(p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file())


def test_a_remem_task_loads_and_its_degenerate_history_is_said(tmp_path):
    report, out = remem(tmp_path)
    task = load_task(out, "pier-names")
    assert [t.id for t in task.key.card.fail_to_pass] == ["tests.test_piers_hidden.Hidden::test_capitals"]  # fmt: skip
    assert [t.id for t in task.key.pass_to_pass] == ["tests.test_visible.Visible::test_is_text"]
    assert any("degenerate" in line for line in report.tasks[0].changed)
    assert task.brief.allowed_paths == ("demo/piers.py",)


def test_summaries_ready_memories_and_curated_context_are_nowhere_in_the_pack(tmp_path):
    _, out = remem(tmp_path)
    written = every_byte(out)
    for secret in (b"THE ANSWER IN SHORT", b"READY MADE", b"THE CURATED ANSWER", b"fact:capitals"):
        assert secret not in written


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda t: t.update(surprise=1), "surprise"),
        (lambda t: t["score"].update(shell="rm"), "shell"),
        (lambda t: t["score"].update(hidden_files={}), "hidden_files"),
        (lambda t: t["score"].update(hidden_files={"tests/x.py": "def f(:"}), "tests/x.py"),
        (lambda t: t["score"].update(hidden_files={"../x.py": "def test_a(): pass"}), "../x.py"),
        (lambda t: t.update(category="cooking"), "category"),
        (lambda t: t.update(history_episodes=[]), "history_episodes"),
        (lambda t: t["history_episodes"][0].update(raw_events=[]), "raw_events"),
    ],
)  # fmt: skip
def test_a_faulty_remem_task_is_refused_by_field_and_leaves_nothing(tmp_path, change, says):
    report, out = remem(tmp_path, lambda pack: change(pack["tasks"][0]))
    assert says in report.tasks[0].refused[0]
    assert not out.exists()


def test_one_faulty_task_does_not_hold_up_the_others(tmp_path):
    def add(pack):
        pack["tasks"].append({**copy.deepcopy(REMEM_TASK), "id": "second", "surprise": 1})

    report, out = remem(tmp_path, add)
    assert [bool(t.refused) for t in report.tasks] == [False, True]
    assert list_tasks(out) == ("pier-names",)


def test_a_task_that_comes_twice_is_imported_once_and_said(tmp_path):
    report, _ = remem(tmp_path, lambda pack: pack["tasks"].append(copy.deepcopy(REMEM_TASK)))
    assert "twice" in report.tasks[1].refused[0]


def test_a_folder_with_files_is_never_written_into(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("x")
    with pytest.raises(DocumentError, match="empty folder"):
        remem(tmp_path)
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["mine"]


# --- SWE-bench -----------------------------------------------------------------------------------------


def git(folder, *words):
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
    return subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@b.invalid", *words],
        cwd=folder, check=True, capture_output=True, text=True, env=environment,
    ).stdout  # fmt: skip


@pytest.fixture
def upstream(tmp_path, monkeypatch):
    folder = tmp_path / "upstream" / "owner" / "piers"
    folder.mkdir(parents=True)
    (folder / "tests").mkdir()
    (folder / "LICENSE").write_text("MIT\n")
    (folder / "piers.py").write_text("def pier(name):\n    return name\n")
    (folder / "tests" / "test_a.py").write_text("def test_a():\n    pass\n")
    (folder / "tests" / "test_b.py").write_text("def test_b():\n    pass\n")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "one")
    monkeypatch.setenv("MEMTRIAL_UPSTREAM", f"file://{tmp_path}/upstream/")
    monkeypatch.setenv("MEMTRIAL_CACHE", str(tmp_path / "cache"))
    (folder / "tests" / "test_a.py").write_text("def test_a():\n    pass\n\n\ndef test_new():\n    from piers import pier\n    assert pier('a') == 'A'\n")  # fmt: skip
    test_patch = git(folder, "diff")
    git(folder, "checkout", "-q", ".")
    (folder / "piers.py").write_text("def pier(name):\n    return name.upper()\n")
    patch = git(folder, "diff")
    git(folder, "checkout", "-q", ".")
    return {
        "repo": "owner/piers",
        "instance_id": "owner__piers-7",
        "base_commit": git(folder, "rev-parse", "HEAD").strip(),
        "patch": patch,
        "test_patch": test_patch,
        "problem_statement": "Pier names should be capitals.",
        "hints_text": "USE UPPER",
        "created_at": "2024-01-01",
        "version": "1.0",
        "FAIL_TO_PASS": json.dumps(["tests/test_a.py::test_new"]),
        "PASS_TO_PASS": json.dumps(["tests/test_a.py::test_a", "tests/test_b.py::test_b"]),
        "environment_setup_commit": "x",
    }


def swebench(tmp_path, *rows):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return import_tasks("swebench", path, tmp_path / "out"), tmp_path / "out"


def test_a_row_is_pinned_without_its_changed_tests_and_says_that_it_measures_no_memory(upstream, tmp_path):  # fmt: skip
    report, out = swebench(tmp_path, upstream)
    assert report.tasks[0].refused == ()
    task = load_task(out, "owner__piers-7")
    assert task.source.exclude == ("tests/test_a.py",)
    assert [t.id for t in task.key.card.fail_to_pass] == ["tests.test_a::test_new"]
    assert [t.id for t in task.key.pass_to_pass] == ["tests.test_b::test_b"]
    assert task.rehearsal.reference_patch == upstream["patch"]
    assert any("measures no memory" in line for line in report.tasks[0].to_do)
    assert b"USE UPPER" not in every_byte(out)


def test_the_gold_patch_stands_in_the_rehearsal_and_nowhere_else(upstream, tmp_path):
    _, out = swebench(tmp_path, upstream)
    holding = [p.relative_to(out).as_posix() for p in out.rglob("*") if p.is_file() and b"name.upper()" in p.read_bytes()]  # fmt: skip
    assert holding == ["tasks/owner__piers-7/rehearsal/reference.patch"]


GOOD_ROWS = [
    pytest.param({"FAIL_TO_PASS": ["tests/test_a.py::test_new"], "PASS_TO_PASS": ["tests/test_b.py::test_b"]}, id="lists"),
    pytest.param({"image": "x:y", "eval_script": "run", "log_parser": "p", "eval_type": "pass_and_fail", "image_assets": None}, id="version-5"),
    pytest.param({"PASS_TO_PASS": ["tests/test_b.py::test_b", "tests/test_b.py::test_c[a b"]}, id="cut-id-in-pass-to-pass"),
]  # fmt: skip


@pytest.mark.parametrize("change", GOOD_ROWS)
def test_every_good_kind_of_row_is_imported(upstream, tmp_path, change):
    report, out = swebench(tmp_path, {**upstream, **change})
    assert report.tasks[0].refused == ()
    assert load_task(out, "owner__piers-7").key.pass_to_pass[0].id == "tests.test_b::test_b"
    if "image" in change:
        assert sum("is not used" in line for line in report.tasks[0].changed) == 3
    if any("[a b" in name for name in change.get("PASS_TO_PASS", [])):
        assert any("cut at a bracket" in line for line in report.tasks[0].changed)


BAD_ROWS = [
    ({"FAIL_TO_PASS": "[]"}, "FAIL_TO_PASS"),
    ({"FAIL_TO_PASS": ["tests/test_a.py::test_new[a"]}, "FAIL_TO_PASS"),
    ({"FAIL_TO_PASS": "not json"}, "FAIL_TO_PASS"),
    ({"PASS_TO_PASS": ["tests/test_a.py::test_a"]}, "PASS_TO_PASS"),
    ({"surprise": 1}, "surprise"),
    ({"base_commit": "main"}, "base_commit"),
    ({"base_commit": "1" * 40}, "1111"),
    ({"repo": "owner/../x/y"}, "repo"),
    ({"test_patch": "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-no\n+yes\n"}, "test_patch"),
    ({"eval_type": "other"}, "eval_type"),
    ({"problem_statement": None}, "problem_statement"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "says"), BAD_ROWS)
def test_every_bad_kind_of_row_is_refused_by_field_and_leaves_nothing(upstream, tmp_path, change, says):  # fmt: skip
    report, out = swebench(tmp_path, {**upstream, **change})
    assert says in report.tasks[0].refused[0]
    assert not out.exists()


@pytest.mark.parametrize(
    ("nodeid", "expected"),
    [
        ("a/test_b.py::test_c", "a.test_b::test_c"),
        ("a/test_b.py::C::test_d[x::y]", "a.test_b.C::test_d[x::y]"),
    ],
)
def test_ids_are_turned_into_those_of_pytest_s_xml(nodeid, expected):
    assert junit_id(nodeid) == expected


# --- Harbor --------------------------------------------------------------------------------------------

TOML = """
schema_version = "1.4"
[task]
name = "org/piers"
description = "Pier names"
[verifier]
environment_mode = "separate"
timeout_sec = 600
[environment]
network_mode = "no-network"
"""


@pytest.fixture
def harbor(tmp_path):
    folder = tmp_path / "piers"
    for name, text in {
        "task.toml": TOML,
        "instruction.md": "Write pier names in capitals.\n",
        "environment/Dockerfile": "FROM x\nRUN curl evil\n",
        "environment/piers.py": "def pier(name):\n    return name\n",
        "environment/test_visible.py": "def test_v():\n    pass\n",
        "tests/test.sh": "pytest\n",
        "tests/test_outputs.py": "def test_capitals():\n    from piers import pier\n    assert pier('a') == 'A'\n",
        "solution/solve.sh": "SOLUTION\n",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def imported(folder, tmp_path):
    return import_tasks("harbor", folder, tmp_path / "out"), tmp_path / "out"


def test_a_harbor_task_loads_without_dockerfile_and_solution(harbor, tmp_path):
    report, out = imported(harbor, tmp_path)
    assert report.tasks[0].refused == ()
    task = load_task(out, "org-piers")
    assert [t.id for t in task.key.card.fail_to_pass] == ["tests.test_outputs::test_capitals"]
    assert [t.id for t in task.key.pass_to_pass] == ["test_visible::test_v"]
    assert b"SOLUTION" not in every_byte(out)
    assert b"curl evil" not in every_byte(out)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('"separate"', '"shared"', "refused for official plans"),
        ('"no-network"', '"public"', "forced to no network"),
    ],
)
def test_what_harbor_allows_and_we_do_not_is_forced_and_said(harbor, tmp_path, old, new, says):
    (harbor / "task.toml").write_text(TOML.replace(old, new))
    report, _ = imported(harbor, tmp_path)
    assert any(says in line for line in report.tasks[0].changed)


BAD_HARBOR = [
    (lambda f: (f / "task.toml").write_text(TOML.replace("1.4", "2.0")), "schema_version"),
    (lambda f: (f / "task.toml").write_text(TOML + "surprise = 1\n"), "surprise"),
    (lambda f: (f / "task.toml").write_text('steps = [{name = "a"}]\n' + TOML), "steps"),
    (lambda f: (f / "task.toml").write_text("=\n"), "TOML"),
    (lambda f: (f / "instruction.md").write_text(" \n"), "instruction.md"),
    (lambda f: (f / "tests" / "test_outputs.py").unlink(), "tests"),
    (lambda f: (f / "environment" / "link").symlink_to("/etc/passwd"), "link"),
    (lambda f: (f / "environment" / "test_visible.py").unlink(), "visible"),
]


@pytest.mark.parametrize(("spoil", "says"), BAD_HARBOR)
def test_every_bad_harbor_task_is_refused_by_name_and_leaves_nothing(harbor, tmp_path, spoil, says):
    spoil(harbor)
    report, out = imported(harbor, tmp_path)
    assert says in report.tasks[0].refused[0]
    assert not out.exists()


def test_an_imported_task_says_why_it_does_not_validate(harbor, tmp_path):
    from orchestrator.pipeline.validate.run import validate

    _, out = imported(harbor, tmp_path)
    report = validate([load_task(out, "org-piers")], None, lambda _: None, repeats=2)
    failed = {c.name: c.evidence for c in report.tasks[0].checks if not c.ok}
    assert "expected 10 to 30 episodes" in failed["v10-history"]
    assert "NOASSERTION" in failed["v1-pins"]
    assert textwrap.shorten(failed["v7-hidden-tests"], 60).startswith("no memory test")

"""The rules of a diff: where it may go, what it may be made of, what its added lines may hold."""

from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from orchestrator.core.patchtext import added_lines
from orchestrator.core.pathglob import matches_any
from orchestrator.core.strictjson import parse_json
from orchestrator.model.task import Brief, Key, KeyCard
from orchestrator.model.verdict import Harvest
from orchestrator.scoring.patch import MAX_CHANGES, MAX_LINES, path_violations, pattern_violations

CASES = Path(__file__).parents[2] / "cases" / "patches"


def harvest_of(
    changes: list[dict[str, Any]], left_out: list[dict[str, Any]], *, truncated: bool = False
) -> Harvest:
    return Harvest.model_validate_json(
        json.dumps(
            {
                "pinned_tree": "0" * 40,
                "tree": "0" * 40,
                "diff_sha256": hashlib.sha256(b"").hexdigest(),
                "diff_bytes": 0,
                "diff_truncated": truncated,
                "changes": changes,
                "left_out": left_out,
            }
        )
    )


def change(path: str, **other: object) -> dict[str, Any]:
    return {
        "path": path,
        "status": "added",
        "old_mode": None,
        "new_mode": "100644",
        "blob": "0" * 40,
        "bytes": 1,
    } | other


def link(path: str, target: str) -> dict[str, Any]:
    return change(path, new_mode="120000", link_target=target)


def broken(harvest: Harvest, brief: Brief, key: Key, diff: bytes = b"") -> list[str]:
    return [
        f"{v.rule} {v.subject}"
        for v in path_violations(harvest, brief, key) + pattern_violations(diff, key)
    ]


@pytest.mark.parametrize("case", sorted(CASES.iterdir()), ids=lambda case: case.name)
def test_a_case_breaks_exactly_its_rules(case: Path, brief: Brief, key: Key) -> None:
    told: Any = parse_json((case / "case.json").read_bytes(), where=case.name)
    diff = (case / "diff.patch").read_bytes() if (case / "diff.patch").exists() else b""
    assert set(told["rules"]) <= set(
        broken(harvest_of(told["changes"], told["left_out"]), brief, key, diff)
    )
    rules = {
        rule.split()[0]
        for rule in broken(harvest_of(told["changes"], told["left_out"]), brief, key, diff)
    }
    assert rules == {rule.split()[0] for rule in told["rules"]}


@pytest.mark.parametrize(
    "path", ["src/a.py", "src/deep/er/b.py", "src/.hidden", "src/conftest.py.txt", "src/privates/a"]
)
def test_a_file_below_an_allowed_folder_breaks_nothing(path: str, brief: Brief, key: Key) -> None:
    assert broken(harvest_of([change(path)], []), brief, key) == []


@pytest.mark.parametrize(
    ("path", "target"), [("src/a", "b.py"), ("src/deep/a", "../b.py"), ("src/deep/a", "./b/c")]
)
def test_a_link_to_an_allowed_path_breaks_nothing(
    path: str, target: str, brief: Brief, key: Key
) -> None:
    assert broken(harvest_of([link(path, target)], []), brief, key) == []


def test_a_cut_diff_and_a_list_of_changes_that_may_be_cut_are_refused(
    brief: Brief, key: Key
) -> None:
    many = [change(f"src/{i:05d}") for i in range(MAX_CHANGES)]
    assert broken(harvest_of([], [], truncated=True), brief, key) == ["diff_too_large diff"]
    assert broken(harvest_of(many, []), brief, key) == ["diff_too_large changes"]


def test_a_forbidden_line_behind_more_lines_than_are_matched_is_refused(key: Key) -> None:
    lines = b"".join(b"+x\n" for _ in range(MAX_LINES)) + b"+eval(x)\n"
    diff = b"--- a/src/a\n+++ b/src/a\n@@ -0,0 +1,%d @@\n" % (MAX_LINES + 1) + lines
    assert [v.rule for v in pattern_violations(diff, key)] == ["diff_too_large"]


def with_patterns(key: Key, **patterns: object) -> Key:
    card = KeyCard.model_validate(
        key.card.model_dump() | {"forbidden_patch_patterns": ()} | patterns
    )
    return key.model_copy(update={"card": card})


def test_a_long_line_is_no_breach_where_nothing_is_forbidden(key: Key) -> None:
    diff = b"@@ -0,0 +1 @@\n+" + b"x" * 5000 + b"\n"
    assert pattern_violations(diff, with_patterns(key)) == []


def test_a_required_pattern_must_stand_on_an_added_line(key: Key) -> None:
    needs = with_patterns(
        key, required_patch_patterns=({"id": "ceil", "pattern": r"ceil\(", "why": "w"},)
    )
    for diff in (
        b"",
        b"@@ -1 +0,0 @@\n-ceil(x)\n",
        b"@@ -1 +1,2 @@\n ceil(x)\n+y\n",
        b"+++ b/ceil(\n@@ -0,0 +1 @@\n+y\n",
    ):
        assert [f"{v.rule} {v.subject}" for v in pattern_violations(diff, needs)] == [
            "required_pattern_missing ceil"
        ]
    assert pattern_violations(b"@@ -0,0 +1 @@\n+ceil(x)\n", needs) == []


def test_removed_and_unchanged_lines_may_hold_what_is_forbidden(key: Key) -> None:
    assert pattern_violations(b"@@ -1,2 +1,2 @@\n eval(x)\n-eval(y)\n+z\n", key) == []


def test_the_added_lines_of_a_real_git_diff_are_the_lines_that_were_added(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    before.write_bytes(b"keep\n@@ -1 +1 @@\nlast")
    after.write_bytes(b"++ b/x\n-- a/x\nkeep\n@@ -1 +1 @@\n@@ -5,9 +5,9 @@\n\r\n\nlast\n")
    diff = subprocess.run(
        ["git", "diff", "--no-index", "--no-color", "before", "after"],
        cwd=tmp_path,
        check=False,
        capture_output=True,
    ).stdout
    assert added_lines(diff) == [b"++ b/x", b"-- a/x", b"@@ -5,9 +5,9 @@", b"\r", b"", b"last"]


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("a/**", ["a/b", "a/b/c", "a/.b/c"], ["a", "ab/c", "b/a/c", "A/b"]),
        (
            "**/conftest.py",
            ["conftest.py", "a/conftest.py", "a/b/conftest.py"],
            ["xconftest.py", "conftest.py/a", "conftest_py"],
        ),
        ("a/**/b", ["a/b", "a/x/b", "a/x/y/b"], ["a/xb", "b"]),
        ("*.py", ["a.py", ".py"], ["a/b.py", "a.pyc", "a.PY"]),
        ("a/*/c", ["a/b/c"], ["a/c", "a/b/b/c"]),
        ("a?c", ["abc", "a.c"], ["ac", "a/c"]),
        ("**", ["a", "a/b"], [""]),
        (".git/**", [".git/config"], ["xgit/config", "a/.git/config"]),
        ("a[b].py", ["a[b].py"], ["ab.py"]),
    ],
)
def test_a_path_pattern_matches_whole_paths_part_by_part(
    pattern: str, matching: list[str], other: list[str]
) -> None:
    assert [path for path in matching + other if matches_any(path, (pattern,))] == matching

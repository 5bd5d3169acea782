"""Imports SWE-bench rows (also of version 5): a repository at a commit, a problem, tests that must turn.

The tree of `base_commit` is fetched and pinned; files that `test_patch` changes become hidden files and leave the
checkout. `hints_text` is never read; the gold patch goes into the rehearsal, which is in no image. Without
a history such a task measures no memory, and says so.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from orchestrator.core.errors import DocumentError, MemtrialError
from orchestrator.core.gittree import tree_id
from orchestrator.core.strictjson import parse_json
from orchestrator.model.imported import ImportedTask
from orchestrator.model.source import Expected, GitSource
from orchestrator.pipeline.authoring.drafts import (
    FORBIDDEN,
    Draft,
    brief,
    card,
    slug,
    without_history,
)
from orchestrator.pipeline.authoring.remem import Refusal
from orchestrator.sources.checkout import commit_id
from orchestrator.sources.patching import texts_after
from orchestrator.sources.upstream import read_upstream

FIELDS = frozenset(
    [
        "repo",
        "instance_id",
        "base_commit",
        "patch",
        "test_patch",
        "problem_statement",
        "hints_text",
        "created_at",
        "version",
        "FAIL_TO_PASS",
        "PASS_TO_PASS",
        "environment_setup_commit",
        "difficulty",
        "image",
        "eval_script",
        "log_parser",
        "eval_type",
        "image_assets",
    ]
)
NEEDED = (
    "repo",
    "instance_id",
    "base_commit",
    "patch",
    "test_patch",
    "problem_statement",
    "FAIL_TO_PASS",
    "PASS_TO_PASS",
)
UPSTREAM = "https://github.com/"
LICENCE_NAMES = re.compile(r"^(?:LICEN[CS]E|COPYING)(?:\.\w+)?$", re.IGNORECASE)
EVAL_TYPES = {None, "pass_and_fail", "fail_only"}


def import_row(
    row: Any, *, cache: Path, upstream: str
) -> tuple[Draft | None, GitSource | None, ImportedTask]:
    """Returns draft and source of one row, or None with what was refused."""
    name = (
        str(row.get("instance_id", "(no instance_id)")) if isinstance(row, dict) else "(no object)"
    )
    try:
        return _import(row, cache, upstream)
    except Refusal as refusal:
        return None, None, ImportedTask(id=name or "(none)", refused=(str(refusal),))
    except MemtrialError as error:
        return None, None, ImportedTask(id=name or "(none)", refused=(error.message,))


def _import(row: Any, cache: Path, upstream: str) -> tuple[Draft, GitSource, ImportedTask]:
    _check_fields(row)
    task_id = slug(str(row["instance_id"]))
    wanted, cut = test_ids(row["FAIL_TO_PASS"], "FAIL_TO_PASS")
    if cut:
        raise Refusal(f"FAIL_TO_PASS: expected whole ids, found {cut[0]!r} cut at a bracket")
    if not wanted:
        raise Refusal("FAIL_TO_PASS: expected at least one test, found none")
    kept, lost = test_ids(row["PASS_TO_PASS"], "PASS_TO_PASS")
    if row.get("eval_type") == "fail_only":
        kept = []
    source, hidden, test_paths = _pinned(row, task_id, cache, upstream)
    inside = [n for n in kept if n.split("::")[0] in hidden]
    base = sorted({junit_id(n) for n in kept} - {junit_id(n) for n in inside})
    if not base:
        raise Refusal("PASS_TO_PASS: expected a test outside the changed test files, found none")
    draft = _draft(
        row,
        task_id,
        source=source,
        hidden=hidden,
        test_paths=test_paths,
        wanted=[junit_id(n) for n in wanted],
        base=base,
    )
    report = ImportedTask(
        id=task_id,
        kept=("problem_statement", "FAIL_TO_PASS", "PASS_TO_PASS", "gold patch, as rehearsal"),
        changed=tuple(_changed(row, hidden, lost, inside)),
        to_do=(
            "write a history of 10 to 30 episodes and the facts in it: this row has none, so it measures no memory",
            "write natural.patch and overeager.patch, and sort the tests into capability and memory",
        ),
    )
    return draft, source, report


def _changed(
    row: dict[str, Any], hidden: dict[str, str], lost: list[str], inside: list[str]
) -> list[str]:
    changed = [
        "hints_text is left out: it tells the answer",
        "hidden test files are left out of the checkout: " + ", ".join(sorted(hidden)),
    ]
    if lost:
        changed.append(
            f"{len(lost)} ids of PASS_TO_PASS are cut at a bracket and left out, first {lost[0]!r}"
        )
    if inside:
        changed.append(
            f"{len(inside)} tests of PASS_TO_PASS stand in hidden files and are left out"
        )
    return changed + [
        f"{name} is not used: memtrial makes its own images and reads reports itself"
        for name in ("image", "eval_script", "log_parser")
        if row.get(name)
    ]


def _check_fields(row: Any) -> None:
    if not isinstance(row, dict):
        raise Refusal("row: expected an object")
    unknown = sorted({*row} - FIELDS)
    if unknown:
        raise Refusal(f"{unknown[0]}: expected no unknown field")
    for name in NEEDED:
        if name not in row or (
            name not in {"FAIL_TO_PASS", "PASS_TO_PASS"} and not isinstance(row[name], str)
        ):
            raise Refusal(f"{name}: expected a text, found {type(row.get(name)).__name__}")
    if not re.fullmatch(r"[0-9a-f]{40}", row["base_commit"]):
        raise Refusal(f"base_commit: expected 40 hexadecimal digits, found {row['base_commit']!r}")
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", row["repo"]):
        raise Refusal(f"repo: expected owner/name, found {row['repo']!r}")
    if row.get("eval_type") not in EVAL_TYPES:
        raise Refusal(f"eval_type: expected pass_and_fail or fail_only, found {row['eval_type']!r}")


def test_ids(value: Any, field: str) -> tuple[list[str], list[str]]:
    """Returns (whole ids, ids cut at a bracket) of a list, or of a list written as a JSON string.

    Raises:
        Refusal: neither of the two.
    """
    if isinstance(value, str):
        try:
            value = parse_json(value.encode(), where=field)
        except DocumentError as error:
            raise Refusal(
                f"{field}: expected a list or one as JSON, found {value[:40]!r}"
            ) from error
    if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
        raise Refusal(f"{field}: expected a list of test ids")
    cut = [name for name in value if name.count("[") != name.count("]")]
    return [name for name in value if name not in cut], cut


test_ids.__test__ = False  # type: ignore[attr-defined]  # the name says test; pytest is not to collect it


def junit_id(nodeid: str) -> str:
    """Returns the id under which pytest's XML names a test: `a/b.py::C::t[x]` is `a.b.C::t[x]`."""
    head, bracket, parameters = nodeid.partition("[")
    path, *names = head.split("::")
    module = path.removesuffix(".py").replace("/", ".")
    return f"{'.'.join([module, *names[:-1]])}::{names[-1] if names else ''}{bracket}{parameters}"


def _pinned(
    row: dict[str, Any], task_id: str, cache: Path, upstream: str
) -> tuple[GitSource, dict[str, str], list[str]]:
    """Fetches the tree, works the test patch out, and pins what is left without the hidden files."""
    raw = {
        "kind": "git",
        "id": task_id,
        "url": f"{upstream}{row['repo']}",
        "upstream_commit": row["base_commit"],
        "licence": "NOASSERTION",
        "licence_files": ("LICENSE",),
        "expect": Expected(tree="0" * 40, commit="0" * 40, files=1, bytes=0),
    }
    files, _, _ = read_upstream(GitSource.model_validate(raw), cache)
    hidden = texts_after(files.values(), row["test_patch"], where=f"{task_id} test_patch")
    if not hidden:
        raise Refusal("test_patch: expected changed test files, found none")
    licences = [path for path in sorted(files) if LICENCE_NAMES.match(path)]
    if not licences:
        raise Refusal("repository: expected a licence file at its root, found none")
    left = [entry for path, entry in files.items() if path not in hidden]
    tree = tree_id(left)
    expect = Expected(
        tree=tree, commit=commit_id(tree), files=len(left), bytes=sum(len(e.data) for e in left)
    )
    source = GitSource.model_validate(
        {
            **raw,
            "licence_files": tuple(licences),
            "exclude": tuple(sorted(hidden)),
            "expect": expect,
        }
    )
    names = {e.path for e in left}
    paths = {name.split("::")[0] for name in test_ids(row["PASS_TO_PASS"], "PASS_TO_PASS")[0]}
    return source, hidden, sorted(path for path in paths if path in names)


def _draft(
    row: dict[str, Any],
    task_id: str,
    *,
    source: GitSource,
    hidden: dict[str, str],
    test_paths: list[str],
    wanted: list[str],
    base: list[str],
) -> Draft:
    runner = {
        "kind": "pytest",
        "source_roots": ["."],
        "test_paths": test_paths or ["tests"],
        "timeout_s": 1800,
    }
    touched = re.findall(r"^\+\+\+ b/(\S+)", row["patch"], re.MULTILINE)
    draft = Draft(
        task_id,
        without_history(
            task_id, hidden=hidden, wanted=wanted, base=base, relevant=touched or ["setup.py"]
        ),
    )
    draft.documents["task.json"] = card(
        task_id,
        task_id,
        category="workstream_continuity",
        source=source.id,
        language="python",
        runner=runner,
    )
    draft.documents["brief.json"] = brief(
        task_id, row["problem_statement"], ("**",), (*FORBIDDEN, *sorted(hidden))
    )
    draft.texts = {f"key/hidden/{path}": text for path, text in hidden.items()}
    draft.texts |= {
        "rehearsal/reference.patch": row["patch"],
        "rehearsal/natural.patch": "",
        "rehearsal/overeager.patch": "",
    }
    draft.texts["README.md"] = (
        f"# {task_id}\nImported from a SWE-bench row; see `import-report.json`.\n"
    )
    return draft

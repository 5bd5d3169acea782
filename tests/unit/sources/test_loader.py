"""Tasks load as separate views, checked against one another."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrator.core.canonical import sha256_hex
from orchestrator.core.errors import DocumentError, IntegrityError, UsageError
from orchestrator.core.gittree import FileEntry
from orchestrator.core.places import fixtures_root
from orchestrator.model.task import History
from orchestrator.sources.checkout import Checkout
from orchestrator.sources.loader import (
    check_against_checkout,
    list_tasks,
    load_conditions,
    load_curated,
    load_source,
    load_task,
)

TASK = "depotfeed-returns"
Edit = Callable[[str, Callable[[Any], None]], None]


@pytest.fixture
def fixtures(tmp_path: Path) -> Path:
    for part in (f"tasks/{TASK}", "sources"):
        shutil.copytree(fixtures_root() / part, tmp_path / part)
    return tmp_path


@pytest.fixture
def edit(fixtures: Path) -> Edit:
    def change(name: str, how: Callable[[Any], None]) -> None:
        path = fixtures / "tasks" / TASK / name
        document = json.loads(path.read_bytes())
        how(document)
        path.write_text(json.dumps(document), encoding="utf-8")

    return change


@pytest.mark.parametrize("task_id", list_tasks(fixtures_root()))
def test_every_shipped_task_loads(task_id: str) -> None:
    task = load_task(fixtures_root(), task_id)
    assert task.card.id == task.digests.id == task_id
    assert task.digests.source_sha256 == load_source(fixtures_root(), task.card.source).digest_sha256()  # fmt: skip
    assert load_conditions(fixtures_root()).conditions


def test_an_unknown_task_names_the_closest_ones() -> None:
    with pytest.raises(UsageError) as caught:
        load_task(fixtures_root(), "depotfeed-return")
    assert TASK in caught.value.hint


@pytest.mark.parametrize("name", ["../tasks", "", "depotfeed-returns/../depotfeed-returns"])
def test_a_task_id_is_never_taken_for_a_path(name: str) -> None:
    with pytest.raises(UsageError):
        load_task(fixtures_root(), name)


@pytest.mark.parametrize("boundary", ["values", "in_process"])
def test_tests_apart_are_refused_where_nothing_runs_apart_and_the_boundary_is_named(
    fixtures: Path, edit: Edit, boundary: str
) -> None:
    def change(document: Any) -> None:
        document["boundary"] = boundary
        for test in document["fail_to_pass"]:
            test["values"] = [test["id"]] if boundary == "values" else []

    edit("key.json", change)
    with pytest.raises(DocumentError) as caught:
        load_task(fixtures, TASK)
    assert 'under the boundary "process" alone' in caught.value.message
    assert f'under "{boundary}"' in caught.value.message


@pytest.mark.parametrize("name", ["brief.json", "history.json", "key.json", "rehearsal/rehearsal.json"])  # fmt: skip
def test_a_part_of_another_task_is_refused(fixtures: Path, edit: Edit, name: str) -> None:
    edit(name, lambda d: d.update(task_id="other-task"))
    with pytest.raises(DocumentError, match="other-task"):
        load_task(fixtures, TASK)


def test_a_fact_must_rest_on_events_of_the_history(fixtures: Path, edit: Edit) -> None:
    edit("key.json", lambda d: d["gold_facts"][0].update(supporting_event_ids=["no-such-event"]))
    with pytest.raises(DocumentError, match="no-such-event"):
        load_task(fixtures, TASK)


def test_a_test_is_in_one_list_only(fixtures: Path, edit: Edit) -> None:
    both: list[str] = []
    edit("key.json", lambda d: both.append(d["fail_to_pass"][0]["id"]))
    edit("key/pass_to_pass.json", lambda d: d["pass_to_pass"].append({"id": both[0]}))
    with pytest.raises(DocumentError, match="in both"):
        load_task(fixtures, TASK)


@pytest.mark.parametrize("path", ["../../brief.json", "/etc/passwd", "tests/missing.py"])
def test_a_hidden_file_lies_in_the_hidden_folder(fixtures: Path, edit: Edit, path: str) -> None:
    edit("key.json", lambda d: d.update(hidden_files=[{"path": path}]))
    with pytest.raises(DocumentError):
        load_task(fixtures, TASK)


def test_a_hidden_file_is_not_read_through_a_link(fixtures: Path) -> None:
    task = load_task(fixtures, TASK)
    path = fixtures / "tasks" / TASK / "key" / "hidden" / task.key.hidden_files[0].path
    path.unlink()
    path.symlink_to("/etc/hostname")
    with pytest.raises(DocumentError):
        load_task(fixtures, TASK)


@pytest.mark.parametrize("which", ["reference", "natural", "overeager"])
def test_a_patch_touches_neither_hidden_tests_nor_foreign_paths(fixtures: Path, which: str) -> None:
    hidden = load_task(fixtures, TASK).key.hidden_files[0].path
    patch = fixtures / "tasks" / TASK / "rehearsal" / f"{which}.patch"
    for path, words in ((hidden, "hidden tests alone"), ("setup.py", "allowed paths only")):
        patch.write_text(f"--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n", encoding="utf-8")
        with pytest.raises(DocumentError, match=words):
            load_task(fixtures, TASK)


def test_text_that_is_no_utf8_is_a_document_error(fixtures: Path) -> None:
    (fixtures / "tasks" / TASK / "rehearsal" / "natural.patch").write_bytes(b"\xff\n")
    with pytest.raises(DocumentError, match="UTF-8"):
        load_task(fixtures, TASK)


def test_a_source_bears_the_id_of_its_file(fixtures: Path) -> None:
    (fixtures / "sources" / "alias.json").write_bytes((fixtures / "sources" / "depotfeed.json").read_bytes())  # fmt: skip
    with pytest.raises(DocumentError, match="alias"):
        load_source(fixtures, "alias")


def test_a_hidden_test_that_the_checkout_has_already_is_refused() -> None:
    task = load_task(fixtures_root(), TASK)
    relevant = [FileEntry(path, "100644", b"") for path in task.key.card.relevant_files]
    check_against_checkout(task, Checkout("x", tuple(relevant), "", "", ()))
    leaked = FileEntry(task.key.hidden_files[0].path, "100644", b"")
    with pytest.raises(DocumentError, match="hidden test"):
        check_against_checkout(task, Checkout("x", (*relevant, leaked), "", "", ()))
    with pytest.raises(DocumentError, match="relevant file"):
        check_against_checkout(task, Checkout("x", (), "", "", ()))


def curate(fixtures: Path, text: str, **changes: object) -> None:
    """Writes a curated file whose log fits it but for the changes."""
    history = History.parse((fixtures / "tasks" / TASK / "history.json").read_bytes(), where="h")
    folder = fixtures / "curated" / TASK
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "MEMORY.md").write_text(text, encoding="utf-8")
    steps = [
        {"episode_id": e.episode_id, "edit_count": 1, "deletion_count": 0, "conflict_resolution_count": 0, "chars_after": len(text)}
        for e in history.episodes
    ]  # fmt: skip
    log: dict[str, object] = {
        "task_id": TASK,
        "curator_kind": "synthetic",
        "target_blind": True,
        "protocol": "curated-file-budgeted-v1",
        "history_sha256": history.digest_sha256(),
        "budget": {"minutes_per_episode": 3, "max_chars": 4000},
        "steps": steps,
        "final_char_count": len(text),
        "final_file_sha256": sha256_hex(text.encode()),
    }
    (folder / "curator-log.json").write_text(json.dumps(log | changes), encoding="utf-8")


def test_a_curated_file_loads_with_characters_counted_not_bytes(fixtures: Path) -> None:
    curate(fixtures, "Pünktlich: 0,5 €\n")
    found = load_curated(fixtures, TASK)
    assert found.text == "Pünktlich: 0,5 €\n"
    assert found.log.final_char_count == 17
    assert found.file_sha256 == sha256_hex(found.text.encode())


def test_a_curated_file_that_was_changed_after_closing_is_an_integrity_error(
    fixtures: Path,
) -> None:
    curate(fixtures, "closed\n", final_file_sha256="0" * 64)
    with pytest.raises(IntegrityError, match="0000"):
        load_curated(fixtures, TASK)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"history_sha256": "0" * 64}, "other episodes"),
        ({"task_id": "other-task"}, "other-task"),
        ({"budget": {"minutes_per_episode": 3, "max_chars": 3}}, "cap"),
    ],
)
def test_a_log_that_contradicts_its_file_or_history_is_refused(
    fixtures: Path, changes: dict[str, object], words: str
) -> None:
    curate(fixtures, "closed\n", **changes)
    with pytest.raises(DocumentError, match=words):
        load_curated(fixtures, TASK)


def test_a_log_has_one_step_per_episode_in_order(fixtures: Path) -> None:
    curate(fixtures, "closed\n")
    path = fixtures / "curated" / TASK / "curator-log.json"
    log = json.loads(path.read_bytes())
    for steps in (log["steps"][:-1], log["steps"][::-1]):
        path.write_text(json.dumps(log | {"steps": steps}), encoding="utf-8")
        with pytest.raises(DocumentError, match="one step per episode"):
            load_curated(fixtures, TASK)

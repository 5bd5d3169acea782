"""Promise: no path of a task can leave its folder, be read as an option, or add a search path."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestrator.core.errors import DocumentError
from orchestrator.model.task import Brief, KeyCard, TaskCard

TASK = Path(__file__).parents[3] / "fixtures" / "tasks" / "depotfeed-returns"
UNSAFE = [
    *("--collect-only", "-p", "/etc", "../report", "a/../../b", "a//b", "a/", "a/./b", ""),
    *("src:/report", "tests/a.py::b", "a\\b", "a\0b", "a\nb", "a\u202eb", "a/" * 40 + "b"),
    "x" * 501,
]


def with_value(name: str, keys: tuple[str, ...], value: object) -> bytes:
    document = json.loads((TASK / name).read_bytes())
    inner = document
    for key in keys[:-1]:
        inner = inner[key]
    inner[keys[-1]] = value
    return json.dumps(document).encode()


@pytest.mark.parametrize("path", UNSAFE)
@pytest.mark.parametrize("field", ["test_paths", "source_roots"])
def test_a_runner_with_an_unsafe_path_is_refused(field: str, path: str) -> None:
    with pytest.raises(DocumentError, match=f"runner.{field}"):
        TaskCard.parse(with_value("task.json", ("runner", field), [path]), where="task.json")


@pytest.mark.parametrize("path", UNSAFE)
@pytest.mark.parametrize("field", ["allowed_paths", "forbidden_paths"])
def test_a_brief_with_an_unsafe_pattern_is_refused(field: str, path: str) -> None:
    with pytest.raises(DocumentError, match=field):
        Brief.parse(with_value("brief.json", (field,), [path]), where="brief.json")


@pytest.mark.parametrize("path", UNSAFE)
def test_a_key_with_an_unsafe_hidden_file_is_refused(path: str) -> None:
    with pytest.raises(DocumentError, match="hidden_files"):
        KeyCard.parse(with_value("key.json", ("hidden_files",), [{"path": path}]), where="key.json")


@pytest.mark.parametrize("path", [".", "src", "./...", "tests/**/*.test.ts", "tests/test_a-b.py"])
def test_paths_as_runners_take_them_are_good(path: str) -> None:
    data = with_value("task.json", ("runner", "test_paths"), [path])
    assert TaskCard.parse(data, where="task.json").runner.test_paths == (path,)


def test_a_matcher_of_a_key_is_bounded_in_length() -> None:
    data = with_value("key.json", ("gold_facts", 0, "matchers"), ["x" * 501])  # type: ignore[arg-type]
    with pytest.raises(DocumentError, match="matchers"):
        KeyCard.parse(data, where="key.json")

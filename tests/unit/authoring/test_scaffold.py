"""A scaffold loads as it is, and validation names what is to be filled in."""

from __future__ import annotations

import shutil

import pytest

from orchestrator.core.errors import DocumentError, UsageError
from orchestrator.core.pathglob import matches_any
from orchestrator.core.places import fixtures_root
from orchestrator.pipeline.authoring.scaffold import HIDDEN_OF, scaffold
from orchestrator.pipeline.validate.run import validate
from orchestrator.sources.loader import load_task

SOURCE = {"python": "depotfeed", "go": "ferrytimes", "rust": "beanweigh", "typescript": "rostertext", "javascript": "rostertext"}  # fmt: skip


@pytest.fixture
def fixtures(tmp_path):
    for part in ("sources", "vendored"):
        shutil.copytree(fixtures_root() / part, tmp_path / part)
    return tmp_path


@pytest.mark.parametrize("language", sorted(HIDDEN_OF))
def test_a_scaffold_of_each_language_loads_and_is_not_valid(fixtures, language):
    made = scaffold(fixtures, "new-task", source=SOURCE[language], language=language, category="negative_constraints")  # fmt: skip
    assert all((fixtures / "tasks" / name).is_file() for name in made)
    task = load_task(fixtures, "new-task")
    report = validate([task], None, lambda _: None, repeats=2)
    failed = {c.name for c in report.tasks[0].checks if not c.ok}
    assert {"v1-pins", "v10-history", "v12-redaction"} <= failed


@pytest.mark.parametrize("language", sorted(HIDDEN_OF))
def test_a_scaffold_s_hidden_file_decides_in_python_alone_and_hands_over_values_elsewhere(
    fixtures, language
):
    scaffold(fixtures, "new-task", source=SOURCE[language], language=language, category="negative_constraints")  # fmt: skip
    key = load_task(fixtures, "new-task").key
    python = language == "python"
    assert key.card.boundary == ("process" if python else "values")
    assert ("MEMTRIAL_VALUES" in key.hidden_files[0].text) is not python
    for test in key.card.fail_to_pass:
        assert test.id.rpartition("::")[2] in key.hidden_files[0].text


@pytest.mark.parametrize("language", sorted(HIDDEN_OF))
def test_an_agent_may_not_change_the_tests_of_a_scaffold(fixtures, language):
    scaffold(fixtures, "new-task", source=SOURCE[language], language=language, category="negative_constraints")  # fmt: skip
    task = load_task(fixtures, "new-task")
    assert all(matches_any(f.path, task.brief.forbidden_paths) for f in task.key.hidden_files)


def test_nothing_is_overwritten(fixtures):
    scaffold(fixtures, "new-task", source="depotfeed", language="python", category="negative_constraints")  # fmt: skip
    with pytest.raises(DocumentError, match="new-task"):
        scaffold(fixtures, "new-task", source="depotfeed", language="python", category="negative_constraints")  # fmt: skip


@pytest.mark.parametrize(
    ("task", "source", "category", "error"),
    [
        ("New Task", "depotfeed", "negative_constraints", UsageError),
        ("../evil", "depotfeed", "negative_constraints", UsageError),
        ("new-task", "nothing", "negative_constraints", DocumentError),
        ("new-task", "depotfeed", "cooking", UsageError),
    ],
)
def test_a_bad_request_writes_nothing(fixtures, task, source, category, error):
    with pytest.raises(error):
        scaffold(fixtures, task, source=source, language="python", category=category)
    assert not (fixtures / "tasks").exists()

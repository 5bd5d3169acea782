"""Promise: what validation.json says is of exactly the tasks that are here, and of all of them."""

from __future__ import annotations

import pytest

from orchestrator.core.places import fixtures_root
from orchestrator.pipeline.validate.run import check_valid, read_report
from orchestrator.sources.loader import list_tasks, load_task

FIXTURES = fixtures_root()
REPORT = read_report(FIXTURES)


@pytest.mark.parametrize("name", list_tasks(FIXTURES))
def test_an_official_plan_may_hold_every_task_of_the_pack(name: str) -> None:
    """An edited task needs `memtrial tasks validate TASK --write`: every check held, for these very files."""
    assert check_valid(load_task(FIXTURES, name), REPORT, official=True)


def test_nothing_else_is_recorded_and_nothing_that_failed() -> None:
    assert REPORT is not None
    assert [task.id for task in REPORT.tasks] == sorted(list_tasks(FIXTURES))
    assert all(task.ok and all(check.ok for check in task.checks) for task in REPORT.tasks)
    assert REPORT.repeats >= 5

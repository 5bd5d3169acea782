"""Measures what a task's base suite is: which tests pass each time, which only report, which pass apart too.

Plays the unchanged checkout several times and the reference patch once. Writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from orchestrator.core.errors import IntegrityError
from orchestrator.model.task import PassToPass, PassToPassList
from orchestrator.model.verdict import TestReport
from orchestrator.pipeline.validate.rehearse import Outcome, Stage

_ANY = "any"


def measure_pins(stage: Stage, *, repeats: int) -> PassToPassList:
    """Returns the base suite as it is: ids that pass alike in every play, and which of them pass apart.

    Args:
        stage: the task with its images; the pins that it has are not looked at.
        repeats: how often the unchanged checkout is played; the reference patch, if any, is played once.

    Raises:
        IntegrityError: the suite gives no report that is believed, or nothing passes.
    """
    task = stage.task
    apart = (_ANY,) if task.key.card.boundary == "process" else ()
    key = task.key.model_copy(
        update={"pass_to_pass": (PassToPass(id=_ANY),), "also_reported": (), "apart": apart}
    )
    measuring = replace(stage, task=replace(task, key=key), any_id=True)
    patch = task.rehearsal.reference_patch
    plays = [measuring.play("") for _ in range(repeats)]
    plays += [measuring.play(patch)] if patch else []
    passing = _same_in_all(_passed(_believed(stage, play.base)) for play in plays)
    if not passing:
        raise IntegrityError(
            "no-base-test-passes",
            f"task {task.card.id}: expected tests that pass in {len(plays)} plays, found none",
            hint="look at test_paths and source_roots in task.json",
        )
    reported = {test.id for play in plays for test in play.base.tests if test.status != "error"}
    across = _same_in_all(_across(play) for play in plays) & passing if apart else set()
    return PassToPassList(
        task_id=task.card.id,
        pass_to_pass=tuple(PassToPass(id=name, n=n) for name, n in sorted(passing)),
        # The runner of this language has its whole report compared; elsewhere what is not pinned is ignored.
        also_reported=tuple(sorted(reported - {name for name, _ in passing}))
        if task.card.runner.kind == "pytest"
        else (),
        apart=tuple(sorted(name for name, _ in across)),
    )


def _across(play: Outcome) -> set[tuple[str, int]]:
    """A suite that cannot be run to its end from another process has no test that passes apart."""
    return set() if play.hidden.faults or play.hidden.timed_out else _passed(play.hidden)


def _passed(report: TestReport) -> set[tuple[str, int]]:
    return {(test.id, test.n) for test in report.tests if test.status == "pass"}


def _same_in_all(plays: Iterable[set[tuple[str, int]]]) -> set[tuple[str, int]]:
    return set.intersection(*plays)


def _believed(stage: Stage, report: TestReport) -> TestReport:
    if report.compiled and not report.timed_out and not report.faults:
        return report
    why = report.compile_error or (report.faults[0].detail if report.faults else "it timed out")
    raise IntegrityError(
        "suite-not-believed",
        f"task {stage.task.card.id}: expected a whole report of {report.phase}, found: {why}",
        hint="mend what it says, then pin again",
    )

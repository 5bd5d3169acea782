"""Promise: each task of the pack measures memory: its patches do what they must, the same every time."""

from __future__ import annotations

from functools import cache
from typing import Literal

import pytest

from orchestrator.core.places import fixtures_root
from orchestrator.model.plan import Plan
from orchestrator.model.task import PassToPass
from orchestrator.pipeline.options import PlanRequest
from orchestrator.pipeline.setup import make_plan
from orchestrator.protocols import Launch
from orchestrator.scoring.runners import exam_for, job_for, normalise
from orchestrator.scoring.seal import draw_seal
from orchestrator.scoring.verdict import tally
from orchestrator.sources.loader import list_tasks, load_task

pytestmark = pytest.mark.docker

SMOKE = {
    name for name in list_tasks(fixtures_root()) if load_task(fixtures_root(), name).card.smoke
}
# The tasks of a smoke run are proven in every test run, the others by `make proof-languages`.
TASKS = [
    name if name in SMOKE else pytest.param(name, marks=pytest.mark.proof)
    for name in list_tasks(fixtures_root())
]
APPLY = "git apply --whitespace=nowarn -"


@cache
def plan_of(task_set: Literal["smoke", "full"]) -> Plan:
    return make_plan(PlanRequest(agents=("oracle",), task_set=task_set), lambda _: None)


@pytest.fixture
def plan(loaded) -> Plan:
    """A plan that names the images of the task."""
    return plan_of("smoke" if loaded.card.smoke else "full")


def judged(sandbox, plan, loaded, patch):
    """Applies a patch as an agent would, then runs both phases; returns both reports."""
    pin = plan.task(loaded.card.id)
    with sandbox.open(pin, trial="test") as workspace:
        acted = workspace.act(
            Launch(
                argv=("sh", "-c", APPLY if patch else "true"), environment=(), stdin=patch.encode()
            )
        )
        harvest = workspace.harvest()
    assert acted.exit_code == 0, acted.output
    reports = {}
    for phase in ("pass_to_pass", "fail_to_pass"):
        exam = exam_for(loaded.card.runner, loaded.key, draw_seal(phase))
        job = job_for(exam, pin, loaded.card.runner, expect_tree=harvest.tree, diff=harvest.diff)
        reports[phase] = normalise(sandbox.verify(job, trial="test")[0], exam)
    return reports


def counts(loaded, reports):
    groups = {
        group: tally(
            tuple(PassToPass(id=t.id) for t in loaded.key.card.fail_to_pass if t.group == group),
            reports["fail_to_pass"],
        )
        for group in ("capability", "memory")
    }
    return (
        groups["capability"],
        groups["memory"],
        tally(loaded.key.pass_to_pass, reports["pass_to_pass"]),
    )


@pytest.fixture(params=TASKS)
def loaded(request, fixtures):
    return load_task(fixtures, request.param)


def test_without_a_change_all_hidden_tests_fail_and_the_base_suite_passes(sandbox, plan, loaded):
    capability, memory, base = counts(loaded, judged(sandbox, plan, loaded, ""))
    assert (capability.passed, memory.passed, base.passed) == (0, 0, base.expected)


def test_the_natural_patch_does_the_job_and_fails_a_memory_test(sandbox, plan, loaded):
    capability, memory, base = counts(
        loaded, judged(sandbox, plan, loaded, loaded.rehearsal.natural_patch)
    )
    assert capability.passed == capability.expected
    assert memory.passed < memory.expected
    assert base.passed == base.expected


def test_the_overeager_patch_breaks_the_base_suite(sandbox, plan, loaded):
    _, _, base = counts(loaded, judged(sandbox, plan, loaded, loaded.rehearsal.overeager_patch))
    assert base.passed < base.expected


def test_five_repeats_of_the_reference_give_identical_statuses(sandbox, plan, loaded):
    runs = [judged(sandbox, plan, loaded, loaded.rehearsal.reference_patch) for _ in range(5)]
    # mocha's exit status counts failures, a number of which each seal draws: it is not a test's status.
    statuses = [{phase: report.tests for phase, report in run.items()} for run in runs]
    assert all(status == statuses[0] for status in statuses)
    assert all(tally.passed == tally.expected for tally in counts(loaded, runs[0]))

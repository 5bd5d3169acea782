"""Attribution under sabotage: one fault for each stage and failure.

Over every task of the pack, as far as no container is needed: life cycle, injection, the follower's own rule,
trace, ladder. And whole runs over played containers, to the report, for a few tasks.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.core.places import fixtures_root
from orchestrator.memory.tokens import TokenCounter
from orchestrator.model.attribution import STAGE_OF, Failure, PathStage
from orchestrator.model.report import RunReport, TrialRow
from orchestrator.report.build import read_trial
from orchestrator.report.charges import explain_trial
from orchestrator.sources.loader import list_tasks, load_task
from tests import sabotage
from tests.recorded import write_reports
from tests.rehearsed import Rehearsed

PACK = list_tasks(fixtures_root())
TASKS = ("cachetools-account-key", "depotfeed-returns")
CRASHED_AT = {
    "open": PathStage.CAPTURE,
    "ingest": PathStage.CAPTURE,
    "settle": PathStage.EXTRACTION,
    "freeze": PathStage.CONSOLIDATION,
    "retrieve": PathStage.RETRIEVAL,
    "compile": PathStage.CONTEXT_COMPILATION,
}


@pytest.fixture(scope="module")
def rehearsals() -> Callable[[str], dict[Failure, Rehearsed]]:
    """Every fault planted in a task, each once."""
    counter = TokenCounter()
    kept: dict[str, dict[Failure, Rehearsed]] = {}

    def of(task_id: str) -> dict[Failure, Rehearsed]:
        if task_id not in kept:
            task = load_task(fixtures_root(), task_id)
            kept[task_id] = {
                f: sabotage.rehearsed(task, sabotage.arm_of(f), counter)
                for f in Failure
                if sabotage.applies(f, task)
            }
        return kept[task_id]

    return of


@pytest.mark.parametrize("task_id", PACK)
def test_without_a_fault_every_fact_arrives(task_id):
    task = load_task(fixtures_root(), task_id)
    assert sabotage.rehearsed(task, sabotage.HONEST, TokenCounter()).resolved


@pytest.mark.parametrize("task_id", PACK)
def test_a_planted_fault_is_named_in_every_task_of_the_pack(task_id, rehearsals):
    task = load_task(fixtures_root(), task_id)
    found = {f: trial.charged(True) for f, trial in rehearsals(task_id).items()}
    assert {f: (c.to, c.stage, c.failure) for f, c in found.items()} == {
        f: ("stage", STAGE_OF[f], sabotage.expected(f, task)) for f in found
    }


@pytest.mark.parametrize("task_id", PACK)
def test_no_fault_is_charged_in_any_task_when_the_oracle_arm_fails_too(task_id, rehearsals):
    assert {trial.charged(False).to for trial in rehearsals(task_id).values()} == {"not_memory"}


def test_every_fault_is_planted_in_several_tasks(rehearsals):
    for failure in Failure:
        assert sum(failure in rehearsals(task_id) for task_id in PACK) >= 4


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return sabotage.play(tmp_path_factory.mktemp("matrix"), TASKS)


@pytest.fixture(scope="module")
def report(folder) -> RunReport:
    return write_reports(folder)


def rows(report: RunReport, condition_id: str) -> dict[str, TrialRow]:
    return {row.task_id: row for row in report.trials if row.condition_id == condition_id}


def test_without_a_fault_a_run_solves_every_task(report):
    assert {row.status for row in rows(report, sabotage.HONEST).values()} == {"resolved"}
    assert {row.status for row in rows(report, sabotage.CONTROL).values()} == {"unresolved"}


@pytest.mark.parametrize("failure", list(Failure), ids=lambda f: f.value)
def test_a_planted_fault_is_named_in_the_report(report, failure):
    found = rows(report, sabotage.arm_of(failure))
    for task_id in TASKS:
        if sabotage.applies(failure, load_task(fixtures_root(), task_id)):
            charge = found[task_id].charge
            assert charge is not None
            assert (charge.stage, charge.failure) == (STAGE_OF[failure], failure)


@pytest.mark.parametrize("step", sabotage.CRASHES)
def test_a_service_that_is_gone_is_charged_to_its_stage_and_told_beside_the_verdict(report, step):
    found = rows(report, sabotage.crash_arm(step)).values()
    assert {row.charge.stage for row in found if row.charge} == {CRASHED_AT[step]}
    assert {(row.status, row.memory_status) for row in found} == {
        ("unresolved", "contract_failure")
    }
    assert all(row.verdict_sha256 for row in found)


def test_a_system_that_hides_its_store_is_never_charged_with_one_stage(report):
    found = rows(report, sabotage.OPAQUE).values()
    assert {row.charge.to for row in found if row.charge} == {"stage_opaque"}
    assert {row.charge.possible for row in found if row.charge} == {
        (PathStage.EXTRACTION, PathStage.CONSOLIDATION, PathStage.RETRIEVAL)
    }


def test_the_arm_without_memory_is_charged_with_nothing(report):
    assert {row.charge for row in rows(report, sabotage.CONTROL).values()} == {None}
    assert sabotage.CONTROL not in {row.condition_id for row in report.memory}


def test_every_failed_trial_of_an_arm_with_memory_is_charged_once(report):
    for arm in report.memory:
        assert sum(count.count for count in arm.charges) == arm.failed


def test_memory_helps_where_the_same_cell_without_it_fails(report):
    honest = next(arm for arm in report.memory if arm.condition_id == sabotage.HONEST)
    assert (honest.compared, honest.helped, honest.hurt) == (len(TASKS), len(TASKS), 0)


def test_memory_is_never_blamed_in_a_run_whose_oracle_arm_fails_too(tmp_path):
    report = write_reports(sabotage.play(tmp_path, TASKS[:1], oracle_works=False))
    charges = [row.charge for row in report.trials if row.charge is not None]
    assert len(charges) >= 12
    assert {charge.to for charge in charges} == {"not_memory"}


def test_without_the_oracle_arm_only_readers_stay_undetermined(tmp_path):
    report = write_reports(sabotage.play(tmp_path, TASKS[:1], without=sabotage.HONEST))
    undetermined = {
        row.condition_id
        for row in report.trials
        if row.charge and row.charge.to == "undetermined_no_oracle"
    }
    assert undetermined == {sabotage.arm_of(f) for f in sabotage.READERS}


def test_the_report_shows_the_stage_table(folder, report):
    lines = (folder / "report.txt").read_text().splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("What failed trials"))
    head = re.split(r"  +", lines[start + 1].strip())
    row = next(x.split() for x in lines[start:] if x.split()[1:2] == ["planted_wrong_scope"])
    assert "not memory" not in head
    assert {name: cell for name, cell in zip(head, row, strict=True) if cell != "."} == {
        "agent": "follower",
        "condition": "planted_wrong_scope",
        "failed": "2",
        "extraction": "2",
    }
    assert any(line.startswith("Memory contract broken") for line in lines)


def test_one_trial_is_explained_in_plain_words(folder):
    key = f"depotfeed-returns/{sabotage.arm_of(Failure.RELEVANT_MEMORY_MISSING)}/follower/e1"
    text = explain_trial(*read_trial(folder, key))
    for part in (
        "retrieval, relevant_memory_missing",
        "the search did not bring it up",
        "stored as m-f1 (active)",
        "not ranked",
        "memory contract: verified",
    ):
        assert part in text

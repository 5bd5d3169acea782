"""Promise: arms differ in their memory and in nothing that it is told, asked or allowed; checked before and in the trial."""

from __future__ import annotations

import json
import shutil

import pytest

from orchestrator.cli.main import main
from orchestrator.core.errors import DocumentError
from orchestrator.ledger.chain import read_entries
from orchestrator.ledger.history import replay
from orchestrator.model.condition import MemoryBudget
from orchestrator.model.outcome import Outcome
from orchestrator.model.plan import MemoryParity
from orchestrator.model.symmetry import outside_parity
from orchestrator.pipeline.memory import memory_assignment, seed_of
from orchestrator.pipeline.options import PlanRequest
from orchestrator.pipeline.parity import limits_of, parity_of, query_of, question_sha256
from orchestrator.pipeline.plan import build_plan
from orchestrator.report.limits import limitations
from orchestrator.sources.loader import load_conditions, load_task
from tests.fakes.sandbox import FakeSandbox
from tests.unit.pipeline.conftest import IMAGE, ROOT

ARMS = ("raw_fts", "raw_history_tail")
SHARES_ONE_HISTORY = ("click-time-window", "click-workspace-lock")


def arms(fixtures, *names, **changes):
    found = {c.id: c for c in load_conditions(fixtures).conditions}
    first, *others = [found[name] for name in names]
    return (first.model_copy(update=changes), *others)


@pytest.fixture
def pair(fixtures):
    task = load_task(fixtures, "depotfeed-returns")
    return task.history, task.brief


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"files_in_scope": True}, "files in scope for all arms or for none"),
        ({"retrieve_k": 3}, "one retrieve_k"),
    ],
)
def test_a_privilege_of_one_arm_is_refused_by_name(fixtures, pair, changes, told):
    chosen = arms(fixtures, "raw_fts", "reference_e2e", **changes)
    with pytest.raises(DocumentError, match=told) as caught:
        parity_of([pair], chosen)
    assert caught.value.reference == "arms-not-in-parity"


DIAGNOSED = {"id": "mine", "role": "diagnostic", "adapter_kind": "entry_point", "adapter": "mine"}
BUDGET = MemoryBudget(unit="o200k_base", max_tokens=1500)


def diagnosed(fixtures, **changes):
    """Returns a plan of two compared arms and a diagnostic one of somebody else."""
    first, second = arms(fixtures, "reference_e2e", "raw_fts")
    return (first, second, second.model_copy(update={**DIAGNOSED, **changes}))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"retrieve_k": None}, ("mine (1000 items, not 12)",)),
        ({"retrieve_k": 30, "budget": BUDGET}, ("mine (1500 tokens, not 700; 30 items, not 12)",)),
        ({}, ()),
        ({"adapter_kind": "builtin", "retrieve_k": None}, ()),
    ],
    ids=["no k", "other k and budget", "alike", "one of ours that does not search"],
)
def test_a_diagnostic_arm_with_another_allowance_is_named_with_its_figures(fixtures, changes, told):
    assert outside_parity(diagnosed(fixtures, **changes)) == told


def test_a_program_that_is_compared_and_sets_no_k_is_refused(fixtures, pair):
    chosen = diagnosed(fixtures, role="control", adapter_kind="command", retrieve_k=None)
    with pytest.raises(DocumentError, match="1000 under mine"):
        parity_of([pair], chosen)


def test_a_plan_and_its_report_tell_of_an_arm_outside_parity(make_plan, capsys):
    names = ("no_memory", "raw_fts", "oracle_evidence")
    apart = "oracle_evidence (4000 tokens, not 700)"
    plan = make_plan(tasks=("depotfeed-returns",), conditions=names)
    assert [said for said in limitations(plan) if apart in said]
    asked = ["plan", "--agent", "noop", "--task", "depotfeed-returns", "--dry-run"]
    assert main([*asked, *(word for name in names for word in ("--condition", name))]) == 0
    assert f"not in parity, because diagnostic: {apart}" in capsys.readouterr().out


def test_a_plan_of_equal_arms_tells_of_none(make_plan):
    plan = make_plan(tasks=("depotfeed-returns",), conditions=ARMS)
    assert not any("parity" in said for said in limitations(plan))


def test_a_diagnostic_arm_may_see_more_and_files_go_to_all_or_none(fixtures, pair):
    chosen = arms(fixtures, "raw_fts", "full_history", "oracle_evidence")
    assert not parity_of([pair], chosen).files_in_scope
    told = tuple(c.model_copy(update={"files_in_scope": True}) for c in chosen)
    with_files, without = parity_of([pair], told), parity_of([pair], chosen)
    assert with_files.files_in_scope
    assert with_files.tasks[0].query_sha256 != without.tasks[0].query_sha256


def test_files_in_a_query_are_those_of_the_brief_and_never_of_the_key(fixtures):
    brief = load_task(fixtures, "depotfeed-returns").brief
    files = query_of(brief, 5, files=True).files_in_scope
    assert files is not None
    assert set(files) <= set(brief.allowed_paths)
    assert query_of(brief, 5).files_in_scope is None


def test_how_many_items_an_arm_asks_for_is_no_part_of_the_question(fixtures):
    brief = load_task(fixtures, "depotfeed-returns").brief
    assert question_sha256(query_of(brief, 3)) == question_sha256(query_of(brief, None))


def test_the_plan_pins_limits_that_the_trial_uses(fixtures):
    plan = build_plan(
        PlanRequest(agents=("noop",), tasks=("depotfeed-returns",), conditions=ARMS),
        fixtures=fixtures,
        images=ROOT / "images",
        image_pins=lambda _: (IMAGE, IMAGE),
    )
    limits = limits_of(plan.parity)
    assert (limits.step_s, limits.settle_s) == (plan.parity.step_ms / 1000, plan.parity.settle_s)


def test_a_trial_whose_history_is_not_the_planned_one_gives_its_memory_nothing(make_plan, run_with):
    plan = make_plan(tasks=("depotfeed-returns",), conditions=("no_memory",))
    (task,) = plan.parity.tasks
    other = plan.parity.model_copy(
        update={"tasks": (task.model_copy(update={"sessions_sha256": "0" * 64}),)}
    )
    assert isinstance(other, MemoryParity)
    run = run_with(plan.model_copy(update={"parity": other}), FakeSandbox())
    record = replay(read_entries(run.folder / "ledger.jsonl")[0])
    (trial,) = record.trials.values()
    assert {a.ended.outcome for a in trial.attempts if a.ended} == {Outcome.INFRA_ERROR}
    assert {a.ended.error_reference for a in trial.attempts if a.ended} == {"memory-not-in-parity"}
    assert not any(attempt.memory for attempt in trial.attempts)


def test_each_epoch_has_a_seed_of_its_own_and_arms_share_it():
    seeds = {seed_of(7, "t", epoch) for epoch in range(1, 30)}
    assert len(seeds) == 29
    assert seed_of(7, "t", 1) == seed_of(7, "t", 1) != seed_of(8, "t", 1)
    assert max(seeds) < 2**53


def test_what_a_system_is_handed_is_the_same_for_two_tasks_with_one_history(fixtures):
    handed = set()
    for name in SHARES_ONE_HISTORY:
        task = load_task(fixtures, name)
        arm = next(c for c in load_conditions(fixtures).conditions if c.id == "raw_fts")
        with memory_assignment(arm, task.history, query_of(task.brief, 3)) as given:
            handed.add((given.place.seed, given.sessions))
    assert len(handed) == 1


def test_a_pack_with_another_history_gives_another_plan(fixtures, tmp_path):
    copy = tmp_path / "fixtures"
    shutil.copytree(fixtures, copy)
    path = copy / "tasks" / "depotfeed-returns" / "history.json"
    value = json.loads(path.read_text())
    value["episodes"][0]["events"][0]["text"] += " And so on."
    path.write_text(json.dumps(value))
    digests = set()
    for root in (fixtures, copy):
        task = load_task(root, "depotfeed-returns")
        digests.add(parity_of([(task.history, task.brief)], ()).tasks[0].sessions_sha256)
    assert len(digests) == 2

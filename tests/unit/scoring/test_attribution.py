"""The ladder: one failed trial, one charge, and never one that the record does not bear."""

from __future__ import annotations

import pytest

from orchestrator.core.places import fixtures_root
from orchestrator.model.attribution import (
    CONTROL_CONDITION,
    ORACLE_CONDITION,
    STAGE_OF,
    Charge,
    Failure,
    PathStage,
)
from orchestrator.model.lifecycle import ContractFailure, Observed, Step
from orchestrator.model.trace import (
    CandidateSeen,
    DropSeen,
    FactTrace,
    MemorySeen,
    MemoryTrace,
    StaleSeen,
    ToolsAsked,
)
from orchestrator.model.verdict import FailureReason, Tally, Verdict, Violation
from orchestrator.scoring.attribution import charge
from orchestrator.sources.loader import load_conditions
from tests.unit.pipeline.test_verdict_rules import GOOD

NONE_PASSED = Tally(expected=1, passed=0, missing=("m",))
PROMOTED = CandidateSeen(
    candidate_id="c1", decision="promote", rule="r1", own_scope=True, memory_id="m1"
)
HELD = CandidateSeen(candidate_id="c1", decision="hold", rule="r2", own_scope=True)
STORED = MemorySeen(memory_id="m1", status="active", own_scope=True)
OLD = StaleSeen(stale_id="s1", active=("m0",), included=("m0",), linked=False, followed=False)


def failed(**change: object) -> Verdict:
    reason = {"resolved": False, "failure_reason": FailureReason.MISSING_MEMORY}
    return Verdict(**{**GOOD, **reason, "fail_to_pass_memory": NONE_PASSED, **change})


def fact(**change: object) -> FactTrace:
    """A fact that was found and not delivered, unless the change says otherwise."""
    whole: dict[str, object] = {
        "fact_id": "f1",
        "supporting": ("e1", "e2"),
        "captured": ("e1", "e2"),
        "survived": True,
        "candidates": (PROMOTED,),
        "memories": (STORED,),
        "unsupported": (),
        "stale": (),
        "ranked": ("m1",),
        "included": (),
        "dropped": (),
        "delivered": False,
    }
    return FactTrace.model_validate({**whole, **change})


def trace(*facts: FactTrace, **change: object) -> MemoryTrace:
    whole: dict[str, object] = {
        "trial": "t/c/follower/e1",
        "remembered_sha256": "0" * 64,
        "injection_sha256": "0" * 64,
        "key_sha256": "0" * 64,
        "information": "raw",
        "shows": tuple(Observed),
        "extracts": True,
        "k": 12,
        "ranked": 5,
        "clusters": 5,
        "facts": facts or (fact(),),
        "stale_included": (),
        "stale_followed": (),
        "cited": (),
    }
    return MemoryTrace.model_validate({**whole, **change})


def charged(found: Charge) -> Failure | str:
    """The failure of a charge to a stage, else to what it is charged."""
    return found.failure or found.to


NOT_STORED: dict[str, object] = {"memories": (), "ranked": ()}


@pytest.mark.parametrize(
    ("lost", "expected", "subreason"),
    [
        ({"captured": (), "survived": False, "candidates": (), **NOT_STORED}, Failure.EVIDENCE_NOT_CAPTURED, None),
        ({"captured": ("e1",), "survived": False, "candidates": (), **NOT_STORED}, Failure.EVIDENCE_NOT_CAPTURED, None),
        ({"candidates": (), **NOT_STORED}, Failure.DURABLE_FACT_MISSED, None),
        ({"candidates": (), **NOT_STORED, "unsupported": ("m9",)}, Failure.DURABLE_FACT_MISSED, "claim-in-its-place"),
        ({"candidates": (HELD,), **NOT_STORED}, Failure.DURABLE_FACT_MISSED, "held"),
        ({"candidates": (HELD.model_copy(update={"decision": "reject"}),), **NOT_STORED}, Failure.DURABLE_FACT_MISSED, "rejected"),
        ({"candidates": (PROMOTED.model_copy(update={"own_scope": False}),), "memories": (STORED.model_copy(update={"own_scope": False}),), "ranked": ()}, Failure.WRONG_SCOPE, None),
        ({**NOT_STORED, "unsupported": ("m9",)}, Failure.UNSUPPORTED_CLAIM_SAVED, None),
        ({"candidates": (HELD,), **NOT_STORED, "stale": (OLD,)}, Failure.UPDATE_NOT_APPLIED, None),
        ({"memories": (STORED.model_copy(update={"status": "superseded"}),), "ranked": (), "stale": (OLD,)}, Failure.UPDATE_NOT_APPLIED, None),
        ({"memories": (STORED.model_copy(update={"status": "superseded"}),), "ranked": ()}, Failure.UPDATE_NOT_APPLIED, "wrongly-superseded"),
        ({"ranked": (), "stale": (OLD,)}, Failure.CONFLICT_NOT_DETECTED, None),
        ({"ranked": (), "stale": (OLD.model_copy(update={"linked": True}),)}, Failure.STALE_MEMORY_NOT_INVALIDATED, None),
        ({"ranked": (), "stale": (OLD.model_copy(update={"included": ()}),)}, Failure.RELEVANT_MEMORY_MISSING, None),
        ({"ranked": ()}, Failure.RELEVANT_MEMORY_MISSING, None),
        ({}, Failure.CONTEXT_BUDGET_DROPPED, None),
        ({"dropped": (DropSeen(item_id="m1", reason="duplicate_cap"),)}, Failure.CONTEXT_BUDGET_DROPPED, "duplicate-cap"),
    ],
)  # fmt: skip
def test_the_first_stage_that_lost_the_fact_is_charged(lost, expected, subreason):
    found = charge(trace(fact(**lost)), failed(), oracle=True)
    assert (found.failure, found.stage, found.subreason) == (
        expected,
        STAGE_OF[expected],
        subreason,
    )
    assert found.fact_id == "f1"


def test_a_list_that_is_full_of_one_thing_said_often_is_crowded():
    lost = fact(ranked=())
    full = charge(trace(lost, ranked=12, clusters=6), failed(), oracle=True)
    assert (full.failure, full.subreason) == (
        Failure.IRRELEVANT_MEMORY_SELECTED,
        "duplicate-crowding",
    )
    for ranked, clusters in ((12, 7), (11, 2), (0, 0)):
        other = charge(trace(lost, ranked=ranked, clusters=clusters), failed(), oracle=True)
        assert other.failure is Failure.RELEVANT_MEMORY_MISSING


def test_over_several_facts_the_earliest_stage_counts():
    late, early = (
        fact(),
        fact(fact_id="f2", candidates=(), memories=(), ranked=()),
    )
    found = charge(trace(late, early), failed(), oracle=True)
    assert (found.fact_id, found.failure) == ("f2", Failure.DURABLE_FACT_MISSED)


def test_at_one_stage_the_first_fact_of_the_key_counts():
    found = charge(trace(fact(ranked=()), fact(fact_id="f2", ranked=())), failed(), oracle=True)
    assert found.fact_id == "f1"


def test_a_fact_in_the_agents_hands_is_the_readers():
    found = charge(trace(fact(delivered=True)), failed(), oracle=True)
    assert found.failure is Failure.RETRIEVED_BUT_IGNORED


@pytest.mark.parametrize(
    ("seen", "verdict"),
    [
        ({"stale_followed": ("s1",)}, failed()),
        (
            {},
            failed(
                patterns_ok=False,
                violations=(
                    Violation(rule="forbidden_pattern_added", subject="no-eval", detail="x"),
                ),
            ),
        ),
    ],
)
def test_a_value_that_must_not_be_there_is_misapplied(seen, verdict):
    found = charge(trace(fact(delivered=True), **seen), verdict, oracle=True)
    assert found.failure is Failure.MEMORY_MISAPPLIED


def test_a_superseded_value_that_was_followed_is_charged_to_the_store_that_kept_it_current():
    old = OLD.model_copy(update={"followed": True})
    found = charge(
        trace(fact(delivered=True, stale=(old,)), stale_followed=("s1",)), failed(), oracle=True
    )
    assert found.failure is Failure.CONFLICT_NOT_DETECTED


ANY_LOSS = [
    {"captured": (), "survived": False, "candidates": (), **NOT_STORED},
    {"candidates": (), **NOT_STORED},
    {"ranked": ()},
    {},
    {"delivered": True},
]


@pytest.mark.parametrize("lost", ANY_LOSS)
def test_memory_is_never_blamed_when_the_oracle_arm_fails_too(lost):
    assert charge(trace(fact(**lost)), failed(), oracle=False).to == "not_memory"


def test_a_broken_contract_is_no_excuse_when_the_oracle_arm_fails_too():
    broken = ContractFailure(step=Step.INGEST, kind="crashed", rule="alive", detail="gone")
    assert charge(trace(failure=broken), failed(), oracle=False).to == "not_memory"


def test_a_broken_contract_is_charged_to_its_stage_also_where_the_tests_pass():
    broken = ContractFailure(step=Step.RETRIEVE, kind="crashed", rule="alive", detail="gone")
    passed = Verdict(**GOOD)
    without_capability = failed(
        fail_to_pass_capability=NONE_PASSED, fail_to_pass_memory=passed.fail_to_pass_memory
    )
    for verdict in (passed, without_capability):
        for oracle in (None, True):
            found = charge(trace(failure=broken), verdict, oracle=oracle)
            assert found.failure is Failure.RELEVANT_MEMORY_MISSING
    assert charge(trace(failure=broken), passed, oracle=False).to == "stage"


def test_without_an_oracle_trial_a_reader_is_not_judged():
    found = charge(trace(fact(delivered=True)), failed(), oracle=None)
    assert found.to == "undetermined_no_oracle"


@pytest.mark.parametrize("lost", ANY_LOSS[:-1])
def test_without_an_oracle_trial_a_lost_fact_is_charged_all_the_same(lost):
    assert charge(trace(fact(**lost)), failed(), oracle=None).to == "stage"


def test_without_an_oracle_trial_an_agent_that_does_not_do_the_job_is_not_judged():
    lazy = failed(fail_to_pass_capability=NONE_PASSED)
    assert charge(trace(), lazy, oracle=None).to == "undetermined_no_oracle"
    assert charge(trace(), lazy, oracle=True).to == "stage"


@pytest.mark.parametrize(
    "reason",
    [
        FailureReason.TIMEOUT,
        FailureReason.WRONG_FILE_MODIFIED,
        FailureReason.COMPILE_FAILURE,
        FailureReason.ORACLE_INCONCLUSIVE,
    ],
)
def test_work_that_was_never_finished_tells_nothing_of_memory(reason):
    assert charge(trace(), failed(failure_reason=reason), oracle=True).to == "not_memory"


def test_a_trial_whose_memory_tests_pass_did_not_fail_by_memory():
    verdict = failed(
        failure_reason=FailureReason.TEST_FAILURE,
        fail_to_pass_memory=GOOD["fail_to_pass_memory"],
        pass_to_pass=NONE_PASSED,
    )
    assert charge(trace(), verdict, oracle=True).to == "not_memory"


@pytest.mark.parametrize(
    ("step", "stage"),
    [
        (Step.DESCRIBE, PathStage.CAPTURE),
        (Step.OPEN, PathStage.CAPTURE),
        (Step.INGEST, PathStage.CAPTURE),
        (Step.SETTLE, PathStage.EXTRACTION),
        (Step.FREEZE, PathStage.CONSOLIDATION),
        (Step.RETRIEVE, PathStage.RETRIEVAL),
        (Step.COMPILE, PathStage.CONTEXT_COMPILATION),
    ],
)
def test_a_system_that_does_not_answer_has_failed_at_its_stage(step, stage):
    broken = ContractFailure(step=step, kind="timed_out", rule="in-time", detail="no answer")
    found = charge(trace(failure=broken), failed(), oracle=True)
    assert (found.stage, found.subreason) == (stage, "contract-timed-out")


def test_a_hidden_stage_before_the_loss_leaves_a_range():
    hides = (Observed.CAPTURE, Observed.RETRIEVAL)
    found = charge(trace(fact(**NOT_STORED), shows=hides), failed(), oracle=True)
    assert found.to == "stage_opaque"
    assert found.possible == (
        PathStage.EXTRACTION,
        PathStage.CONSOLIDATION,
        PathStage.RETRIEVAL,
    )


def test_a_later_sighting_clears_a_hidden_stage():
    hides = (Observed.STORE, Observed.RETRIEVAL)
    found = charge(trace(fact(ranked=()), shows=hides), failed(), oracle=True)
    assert found.failure is Failure.RELEVANT_MEMORY_MISSING
    stored = charge(trace(fact(), shows=hides), failed(), oracle=True)
    assert stored.failure is Failure.CONTEXT_BUDGET_DROPPED


def test_a_file_that_people_keep_hides_how_it_came_to_be():
    curated = charge(
        trace(fact(**NOT_STORED, candidates=()), information="curated", extracts=False),
        failed(),
        oracle=True,
    )
    assert curated.to == "stage_opaque"
    assert curated.possible == (PathStage.CAPTURE, PathStage.EXTRACTION, PathStage.CONSOLIDATION)


def test_a_store_of_raw_events_has_no_extraction_to_blame():
    found = charge(trace(fact(candidates=(), ranked=()), extracts=False), failed(), oracle=True)
    assert found.failure is Failure.RELEVANT_MEMORY_MISSING


def test_a_charge_names_one_stage_and_one_failure_that_belong_together():
    for wrong in (
        {"to": "stage", "stage": None, "failure": None},
        {"to": "stage", "stage": "capture", "failure": "durable_fact_missed"},
        {"to": "not_memory", "stage": "capture", "failure": "evidence_not_captured"},
        {"to": "stage_opaque"},
    ):
        with pytest.raises(ValueError, match=r"given exactly|no failure of"):
            Charge.model_validate({"evidence": ("x",), **wrong}, strict=False)


def test_a_store_that_never_consolidates_is_not_blamed_for_old_values():
    raw = ("capture", "retrieval", "context_compilation", "reader_use")
    found = charge(
        trace(fact(ranked=(), stale=(OLD,)), extracts=False, stages=raw), failed(), oracle=True
    )
    assert found.failure is Failure.RELEVANT_MEMORY_MISSING


def test_the_registry_publishes_the_same_stages_and_failures():
    registry = load_conditions(fixtures_root())
    published = {
        failure: entry.stage for entry in registry.failure_stages for failure in entry.failures
    }
    assert published == {failure.value: stage.value for failure, stage in STAGE_OF.items()}
    assert [entry.stage for entry in registry.failure_stages] == [s.value for s in PathStage]


def test_the_arms_that_attribution_compares_with_are_in_the_registry():
    ids = {condition.id for condition in load_conditions(fixtures_root()).conditions}
    assert {ORACLE_CONDITION, CONTROL_CONDITION} <= ids


def test_every_failure_belongs_to_a_stage():
    assert set(STAGE_OF) == set(Failure)
    assert set(STAGE_OF.values()) == set(PathStage)


def asked(questions: int, *by_prompt: str) -> ToolsAsked:
    return ToolsAsked(questions=questions, heard=questions, by_prompt=by_prompt)


IN_ANSWER: dict[str, object] = {"ranked": ("m1",), "included": ("m1",)}


@pytest.mark.parametrize(
    ("lost", "use", "expected", "subreason"),
    [
        ({"ranked": ()}, asked(0), Failure.RETRIEVED_BUT_IGNORED, "never-asked"),
        ({"ranked": ()}, asked(0, "f1"), Failure.RETRIEVED_BUT_IGNORED, "never-asked"),
        ({**NOT_STORED, "stale": (OLD,)}, asked(0), Failure.UPDATE_NOT_APPLIED, None),
        ({"ranked": ()}, asked(2), Failure.RELEVANT_MEMORY_MISSING, None),
        ({"ranked": ()}, asked(2, "f1"), Failure.RELEVANT_MEMORY_MISSING, "asked-otherwise"),
        ({"ranked": ()}, asked(2, "f2"), Failure.RELEVANT_MEMORY_MISSING, None),
        ({}, asked(2), Failure.CONTEXT_BUDGET_DROPPED, None),
        (IN_ANSWER, asked(2), Failure.RETRIEVED_BUT_IGNORED, "not-handed-on"),
        ({**IN_ANSWER, "delivered": True}, asked(2), Failure.RETRIEVED_BUT_IGNORED, None),
    ],
)  # fmt: skip
def test_an_agent_that_asks_tools_is_followed_to_its_question_and_its_answer(
    lost, use, expected, subreason
):
    found = charge(trace(fact(**lost), asked=use), failed(), oracle=True)
    assert (found.failure, found.stage, found.subreason) == (
        expected,
        STAGE_OF[expected],
        subreason,
    )


def test_an_answer_that_came_before_the_model_says_nothing_of_the_reader_without_an_oracle():
    seen = trace(fact(**IN_ANSWER, delivered=True), asked=asked(1))
    found = charge(seen, failed(), oracle=None)
    assert (found.to, "an answer that came before the model" in found.evidence[0]) == ("undetermined_no_oracle", True)  # fmt: skip

"""Charges in words: what a foreign program wrote can neither forge a line nor move the cursor."""

from __future__ import annotations

import pytest

from orchestrator.model.attribution import Charge, Failure
from orchestrator.model.lifecycle import ContractFailure, Step
from orchestrator.model.outcome import Outcome
from orchestrator.model.report import TrialRow
from orchestrator.model.trace import ToolsAsked
from orchestrator.report.charges import IN_WORDS, explain_trial, sentence
from orchestrator.scoring.attribution import charge
from tests.unit.scoring.test_attribution import fact, failed, trace


def row(found: Charge | None) -> TrialRow:
    return TrialRow(
        trial="t/c/follower/e1",
        task_id="t",
        condition_id="c",
        agent="follower",
        epoch=1,
        status="unresolved",
        outcome=Outcome.COMPLETED,
        failure_reason=None,
        why="memory tests 0/1",
        charge=found,
        memory_tokens=1,
        verdict_sha256=None,
        attempts=1,
        wall_ms=1,
        container_ms=1,
        resources=None,
    )


def test_a_systems_own_words_are_shown_escaped_and_on_one_line():
    broken = ContractFailure(
        step=Step.SETTLE,
        kind="crashed",
        rule="alive",
        detail="gone\n  memory contract: verified\x1b[2J",
    )
    seen = trace(failure=broken)
    text = explain_trial(row(charge(seen, failed(), oracle=True)), seen)
    assert "\x1b" not in text
    assert "  memory contract: verified" not in text.splitlines()


def test_every_failure_has_its_words():
    assert set(IN_WORDS) == set(Failure)


@pytest.mark.parametrize(
    ("lost", "oracle", "says"),
    [
        ({"ranked": ()}, True, "retrieval, relevant_memory_missing (f1): it was in the store"),
        ({"ranked": ()}, False, "not memory"),
        ({"delivered": True}, None, "run the oracle_evidence arm of this task to tell"),
    ],
)
def test_a_charge_is_one_sentence(lost, oracle, says):
    assert says in sentence(charge(trace(fact(**lost)), failed(), oracle=oracle))


def test_a_trial_without_memory_says_so():
    assert "this arm has none" in explain_trial(row(None), None)


def test_a_trial_whose_agent_asks_tools_says_how_often_it_asked_and_what_came_of_it():
    asked = ToolsAsked(questions=3, heard=2, by_prompt=())
    seen = trace(fact(ranked=()), asked=asked)
    text = explain_trial(row(charge(seen, failed(), oracle=True)), seen)
    assert "asked its memory 3 questions; 2 of the answers came before the model" in text


@pytest.mark.parametrize(
    ("questions", "says"),
    [(0, "the agent asked its memory nothing"), (1, "the prompt would have")],
)
def test_what_only_tools_can_come_to_has_its_own_words(questions, says):
    seen = trace(fact(ranked=()), asked=ToolsAsked(questions=questions, heard=0, by_prompt=("f1",)))
    assert says in sentence(charge(seen, failed(), oracle=True))


@pytest.mark.parametrize(
    ("asked", "where"),
    [
        (None, "the injected text"),
        (ToolsAsked(questions=1, heard=1, by_prompt=()), "an answer that came before the model"),
    ],
    ids=["put before it", "asked by it"],
)
def test_where_a_fact_came_to_the_agent_is_said_as_its_arm_gave_it(asked, where):
    for delivered, said in ((True, f"; in {where}"), (False, f"; not in {where}")):
        text = explain_trial(row(None), trace(fact(delivered=delivered), asked=asked))
        assert said in text

"""Promise: the contract kit passes sound systems and catches every planted fault, by the test that is meant for it."""

from __future__ import annotations

import time
from typing import ClassVar

import pytest

from orchestrator.memory.life import Limits
from orchestrator.memory.raw_fts import RawFtsAdapter
from orchestrator.memory.shelf import make
from orchestrator.memory.supplies import Supplies
from orchestrator.model.lifecycle import ExtractionReport, GoldFacts, GoldNote
from orchestrator.protocols import MemoryAdapter
from orchestrator.testing.memory import MemoryContract
from tests.unit.memory.lives import COUNTER
from tests.unit.testing import planted

WHOLE = "test_a_whole_life_breaks_no_rule"
FAULTS = [
    (planted.PeeksAtAKey, "test_it_touches_its_own_folders_and_nothing_else", "tasks or keys"),
    (planted.IngestsAfterFreeze, "test_nothing_is_learnt_after_the_freeze", "frozen store"),
    (planted.RandomIds, "test_two_lives_are_equal_to_the_byte", "equal bytes"),
    (planted.OverBudget, "test_every_budget_and_k_is_kept", "within-budget"),
    (planted.CitesAnUnknownId, WHOLE, "memory-known"),
    (planted.DropsSilently, WHOLE, "event-accounted-for"),
    (planted.Reorders, WHOLE, "event-order"),
    (planted.WritesAtRetrieval, WHOLE, "frozen-is-frozen"),
    (planted.IgnoresScope, "test_no_project_sees_another", "of its own"),
    (planted.UnstableRanks, "test_asking_changes_no_answer", "stable ranks"),
    (planted.LiesAboutTheHash, WHOLE, "true-hash"),
    (planted.LiesAboutTheCount, WHOLE, "true-count"),
    (planted.Hangs, WHOLE, "step-in-time"),
    (planted.Floods, WHOLE, "answer-bounded"),
    (planted.CrashesInSettle, WHOLE, "ZeroDivisionError"),
    (planted.LeavesTheInterpreter, WHOLE, "SystemExit"),
    (planted.NamesNoRule, WHOLE, "adapter-fault"),
    (planted.LeavesWhileItIsTold, WHOLE, "cannot be told"),
    (planted.HangsWhileItIsTold, WHOLE, "step-in-time"),
    (planted.FaultThatActs, WHOLE, "queue empty"),
    (planted.AnswersWithCode, WHOLE, "SystemExit"),
    (planted.SaysThatItIsAFile, WHOLE, "expected information raw, found curated"),
    (planted.SaysThatItIsNothing, WHOLE, "found none"),
    (planted.WritesElsewhere, "test_it_touches_its_own_folders_and_nothing_else", "below its own"),
    (planted.KeepsSecrets, "test_no_secret_stays_in_the_store", "no secret"),
    (planted.KeepsTypedSecrets, "test_no_secret_stays_in_the_store", "no secret"),
    (planted.NamesOtherSources, WHOLE, "sources-as-stored"),
    (planted.CountsItemsWrong, WHOLE, "true-count"),
    (planted.OwnTemplate, WHOLE, "shared-template"),
    (planted.RewordsAtRetrieval, WHOLE, "text-as-stored"),
    (planted.MakesUpEvidence, WHOLE, "evidence-known"),
    (planted.MoreThanK, WHOLE, "at-most-k"),
    (planted.CallsTheNetwork, "test_it_touches_its_own_folders_and_nothing_else", "no network"),
    (planted.AnswersNonsense, WHOLE, "typed-answer"),
    (planted.LosesWhatItPromoted, WHOLE, "promoted-is-stored"),
    (planted.CrashesAtClose, WHOLE, "handle lost"),
    (planted.ForgetsTheQuery, WHOLE, "own-query"),
    (planted.LooksForward, "test_a_dump_of_the_past_holds_no_later_memory", "past-as-it-was"),
    (planted.KeepsNoTimes, "test_a_dump_of_the_past_holds_no_later_memory", "found none"),
]
QUICK = Limits(step_s=1.5, settle_s=1)


def kit_over(kind: type[MemoryAdapter], limits: Limits) -> MemoryContract:
    class Kit(MemoryContract):
        def make_adapter(self) -> MemoryAdapter:
            return kind()

    kit = Kit()
    kit.limits = limits
    return kit


class TestASoundSystem(MemoryContract):
    def make_adapter(self) -> MemoryAdapter:
        return planted.Sound()


class TestRawFullText(MemoryContract):
    def make_adapter(self) -> MemoryAdapter:
        return RawFtsAdapter(COUNTER)


class TestTheTail(MemoryContract):
    def make_adapter(self) -> MemoryAdapter:
        return make("history_tail", Supplies(COUNTER))


class TestThePlacebo(MemoryContract):
    def make_adapter(self) -> MemoryAdapter:
        return make("placebo", Supplies(COUNTER))


class TestACuratedFile(MemoryContract):
    def make_adapter(self) -> MemoryAdapter:
        return make("curated", Supplies(COUNTER, curated="- labels stay verbatim\n- 0 is valid\n"))


class TestOracleEvidence(MemoryContract):
    def make_adapter(self) -> MemoryAdapter:
        return make("oracle_evidence", Supplies(COUNTER))

    def gold(self) -> GoldFacts:
        return GoldFacts(facts=(GoldNote(note_id="f1", statement="s", event_ids=("s05-e01",)),))


@pytest.mark.parametrize(
    ("kind", "test", "told"), FAULTS, ids=[kind.__name__ for kind, _, _ in FAULTS]
)
def test_a_planted_fault_is_caught_by_the_test_that_is_meant_for_it(kind, test, told):
    limits = (
        QUICK
        if kind in (planted.Hangs, planted.HangsWhileItIsTold)
        else Limits(step_s=60, settle_s=60)
    )
    with pytest.raises(AssertionError, match=told):
        getattr(kit_over(kind, limits), test)()


def test_there_are_fifteen_planted_faults_and_more():
    assert len({kind for kind, _, _ in FAULTS}) >= 15


class Patient(planted.Sound):
    """Takes longer to settle than a step may, and not longer than settling may; notes its close."""

    closed: ClassVar[list[str]] = []
    takes_s: ClassVar[float] = 2.5

    def settle(self, deadline_s: int) -> ExtractionReport:
        time.sleep(self.takes_s)
        return super().settle(deadline_s)

    def close(self) -> None:
        self.closed.append("closed")
        super().close()


class OfPatient(MemoryContract):
    """The kit over it, run by hand below."""

    __test__ = False
    limits = Limits(step_s=2.0, settle_s=20)

    def make_adapter(self) -> Patient:
        return Patient()


def test_settling_has_its_own_deadline_wherever_the_kit_settles():
    OfPatient().test_asking_changes_no_answer()


def test_what_hangs_in_the_kit_is_closed_all_the_same(monkeypatch):
    monkeypatch.setattr(Patient, "takes_s", 6.0)
    monkeypatch.setattr(OfPatient, "limits", Limits(step_s=2.0, settle_s=1))
    Patient.closed.clear()
    with pytest.raises(Exception, match="expected an answer within"):
        OfPatient().test_asking_changes_no_answer()
    assert Patient.closed == ["closed"]

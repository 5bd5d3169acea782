"""Promise: each built-in arm puts before the agent what its name says, on every task of the pack, within its budget."""

from __future__ import annotations

import re
from functools import cache

import pytest

from orchestrator.core.places import fixtures_root
from orchestrator.memory.builtin import BuiltinMemory
from orchestrator.memory.none import EmptyAdapter
from orchestrator.memory.placebo import PlaceboMemory
from orchestrator.memory.raw_fts import RawFtsAdapter
from orchestrator.memory.shelf import make
from orchestrator.memory.supplies import Supplies
from orchestrator.model.condition import Condition
from orchestrator.model.lifecycle import Description, Step
from orchestrator.model.memory import Remembered
from orchestrator.pipeline.gold import gold_for
from orchestrator.sources.loader import (
    LoadedTask,
    list_tasks,
    load_conditions,
    load_curated,
    load_task,
)
from tests.unit.memory.lives import COUNTER, arm, life_of, said

TASKS = list_tasks(fixtures_root())


@cache
def task(name: str) -> LoadedTask:
    return load_task(fixtures_root(), name)


@cache
def condition(name: str) -> Condition:
    return next(c for c in load_conditions(fixtures_root()).conditions if c.id == name)


def lived(name: str, task_name: str, *, inner: str | None = None) -> Remembered:
    """Takes an arm through its life on a task; `inner` stands in for the system below."""
    chosen, found = condition(name), task(task_name)
    supplies = Supplies(
        COUNTER,
        curated=load_curated(fixtures_root(), task_name).text,
        inner=(lambda: make(inner, Supplies(COUNTER))) if inner else None,
    )
    remembered = life_of(
        make(chosen.adapter, supplies),
        chosen,
        found.history,
        found.brief.prompt,
        k=1000,
        gold=gold_for(chosen, found.key),
    )
    assert remembered.failure is None
    return remembered


def text_of(remembered: Remembered) -> str:
    return remembered.context.text if remembered.context else ""


def holds(patterns: tuple[str, ...], text: str) -> bool:
    flat = " ".join(text.split())
    return all(re.search(pattern, flat, re.IGNORECASE) for pattern in patterns)


def folded(text: str) -> str:
    return " ".join(text.casefold().split())


def follows(found: LoadedTask, text: str) -> bool:
    """Whether the follower agent would recognise every fact in a text; it folds case and white space."""
    text = folded(text)
    return all(
        any(all(folded(part) in text for part in parts) for parts in fact.any_of)
        for fact in found.rehearsal.facts
    )


@pytest.mark.parametrize("name", TASKS)
def test_the_evidence_arm_shows_every_gold_fact_and_no_event_but_the_decisive_ones(name):
    remembered = lived("oracle_evidence", name)
    gold = task(name).key.card.gold_facts
    assert all(holds(fact.matchers, text_of(remembered)) for fact in gold)
    decisive = {event for fact in gold for event in fact.supporting_event_ids}
    assert {item.item_id for item in remembered.items} <= decisive
    assert follows(task(name), text_of(remembered))


@pytest.mark.parametrize("arm_id", ["seeded_sessionstart", "curated_file_expert"])
def test_told_arms_show_every_gold_statement_of_every_task(arm_id):
    for name in TASKS:
        text = " ".join(text_of(lived(arm_id, name)).split())
        for fact in task(name).key.card.gold_facts:
            assert " ".join(fact.statement.split()) in text


@pytest.mark.parametrize("name", TASKS)
def test_the_whole_history_is_there_but_for_empty_and_repeated_events(name):
    remembered = lived("full_history", name)
    events = [e for episode in task(name).history.episodes for e in episode.events]
    assert remembered.context is not None
    assert len(remembered.context.included) + len(remembered.capture_drops) == len(events)
    assert remembered.context.dropped == ()


@pytest.mark.parametrize("name", TASKS)
def test_the_tail_is_the_latest_events_without_a_gap_in_order(name):
    remembered = lived("raw_history_tail", name)
    context = remembered.context
    assert context is not None
    kept = [item.item_id for item in remembered.items]
    shown = [item.item_id for item in context.included]
    assert shown == kept[: len(shown)][::-1]
    assert context.dropped
    assert context.dropped[0].reason == "over_budget"


@pytest.mark.parametrize("name", TASKS)
def test_the_placebo_fills_the_budget_and_holds_no_fact_of_any_kind(name):
    remembered = lived("placebo_context", name)
    budget = condition("placebo_context").budget
    assert budget is not None
    assert remembered.context is not None
    assert budget.max_tokens - 3 <= remembered.context.tokens <= budget.max_tokens
    card = task(name).key.card
    text = text_of(remembered)
    assert not any(holds(fact.matchers, text) for fact in card.gold_facts)
    assert not any(holds(fact.matchers, text) for fact in card.stale_facts)
    assert not follows(task(name), text)


@pytest.mark.parametrize("name", TASKS)
def test_poison_contradicts_and_tells_no_gold_fact(name):
    text = text_of(lived("poisoned", name))
    assert "withdrawn" in text
    assert not follows(task(name), text)


def test_stale_values_are_all_that_the_stale_arm_knows():
    told = {name: lived("stale_only", name) for name in TASKS}
    for name, remembered in told.items():
        old = [fact.statement for fact in task(name).key.card.stale_facts]
        assert [item.text for item in remembered.items] == old
        assert not follows(task(name), text_of(remembered))
    assert sum(bool(remembered.items) for remembered in told.values()) >= 5


@pytest.mark.parametrize("name", TASKS)
def test_conventions_hold_choices_of_the_curated_file_and_no_rejection(name):
    whole = " ".join(load_curated(fixtures_root(), name).text.split())
    text = text_of(lived("conventions", name)).partition("its id.\n")[2]
    assert text
    assert not re.search(r"\b(not|never|instead|reject\w*|rather)\b", text, re.IGNORECASE)
    for item in lived("conventions", name).items[:3]:
        assert " ".join(item.text.split())[:12] in whole or ":" in item.text


def test_a_flat_file_is_the_whole_store_of_the_system_below_in_order():
    remembered = lived("flatfile", TASKS[0], inner="raw_fts")
    times = [item.text[:10] for item in remembered.items]
    assert times == sorted(times)
    assert len(remembered.items) == remembered.captured_events


@pytest.mark.parametrize("name", TASKS)
def test_oracle_retrieval_finds_what_the_system_below_kept_of_the_evidence(name):
    remembered = lived("oracle_retrieval", name, inner="raw_fts")
    decisive = {e for f in task(name).key.card.gold_facts for e in f.supporting_event_ids}
    dropped = {drop.event_id for drop in remembered.capture_drops}
    assert {item.item_id for item in remembered.items} == decisive - dropped


def test_no_arm_but_those_with_the_door_is_told_gold_facts():
    for chosen in load_conditions(fixtures_root()).conditions:
        told = gold_for(chosen, task(TASKS[0]).key) is not None
        assert told == (chosen.door == "gold")
        assert not (told and chosen.claim_bearing)


def test_an_adapter_that_says_gold_without_the_door_breaks_its_contract():
    class Claims(BuiltinMemory):
        name = "claims"
        information = "gold"

    remembered = life_of(Claims(COUNTER), arm("claims"), said("x"))
    assert remembered.failure is not None
    assert remembered.failure.rule == "information-as-declared"


def test_the_empty_store_says_that_it_learns_from_nothing_and_keeps_its_contract():
    empty = EmptyAdapter(COUNTER)
    remembered = life_of(empty, arm("empty"), said("x"))
    assert (empty.describe().information, remembered.failure) == ("none", None)


def test_what_says_that_it_learns_from_nothing_and_stores_a_note_breaks_its_contract():
    class Filled(PlaceboMemory):
        def describe(self) -> Description:
            return super().describe().model_copy(update={"information": "none"})

    remembered = life_of(Filled(COUNTER), arm("placebo"), said("x"))
    assert remembered.failure is not None
    assert (remembered.failure.step, remembered.failure.rule) == (
        Step.FREEZE,
        "information-as-declared",
    )


def test_two_lives_of_one_arm_are_equal_to_the_byte():
    first, second = (lived("raw_history_tail", TASKS[1]) for _ in range(2))
    assert first.canonical() == second.canonical()
    one, two = (
        life_of(RawFtsAdapter(COUNTER), arm("raw_fts"), task(TASKS[1]).history, "x").archive_sha256
        for _ in range(2)
    )
    assert one == two

"""Promise: the pack's documents alone show that a task is fair: what is said where, and when."""

from __future__ import annotations

import re
import runpy
from collections import Counter, defaultdict
from datetime import datetime

import pytest

from orchestrator.core.places import fixtures_root
from orchestrator.memory.redact import redact
from orchestrator.memory.sqlite.capture import event_text
from orchestrator.model.task import Category, Event
from orchestrator.sources.loader import LoadedTask, list_tasks, load_curated, load_task

FIXTURES = fixtures_root()
TASKS = list_tasks(FIXTURES)
# The curated files of the first tasks were made before the program that makes the others.
MADE_BEFORE = {
    "beanweigh-label-weight",
    "cachetools-account-key",
    "depotfeed-returns",
    "ferrytimes-service-day",
    "humanize-transfer-eta",
    "rostertext-board-line",
}


@pytest.fixture(params=TASKS)
def task(request: pytest.FixtureRequest) -> LoadedTask:
    return load_task(FIXTURES, request.param)


def events(task: LoadedTask) -> list[Event]:
    return [event for episode in task.history.episodes for event in episode.events]


def all_match(patterns: tuple[str, ...], text: str) -> bool:
    return all(re.search(pattern, text, re.IGNORECASE) for pattern in patterns)


def test_a_history_has_ten_to_thirty_episodes_in_working_hours(task: LoadedTask) -> None:
    assert 10 <= len(task.history.episodes) <= 30
    for event in events(task):
        at = datetime.fromisoformat(event.at)
        assert at.weekday() < 5, event.event_id
        assert 7 <= at.hour < 20, event.event_id


def test_a_history_has_tools_failed_commands_and_one_secret(task: LoadedTask) -> None:
    tools = [event.tool for event in events(task) if event.tool]
    assert any(tool.exit_code for tool in tools)
    secrets = [e.event_id for e in events(task) if redact(event_text(e)) != event_text(e)]
    assert len(secrets) == 1
    decisive = {i for fact in task.key.card.gold_facts for i in fact.supporting_event_ids}
    assert not decisive & set(secrets)


def test_a_fact_is_said_where_the_key_points_and_nowhere_else(task: LoadedTask) -> None:
    for fact in task.key.card.gold_facts:
        said = [e for e in events(task) if e.event_id in fact.supporting_event_ids]
        rest = "\n".join(event_text(e) for e in events(task) if e not in said)
        assert any(all_match(fact.matchers, event_text(e)) for e in said), fact.id
        assert not all_match(fact.matchers, rest), fact.id


def test_the_prompt_gives_no_fact_away(task: LoadedTask) -> None:
    for fact in task.key.card.gold_facts:
        assert not all_match(fact.matchers, task.brief.prompt), fact.id


def test_what_is_stale_or_in_conflict_stands_in_the_history(task: LoadedTask) -> None:
    if task.card.category == "stale_memory_avoidance":
        assert task.key.card.stale_facts
    for fact in task.key.card.stale_facts:
        said = [event_text(e) for e in events(task) if e.event_id in fact.event_ids]
        assert any(all_match(fact.matchers, text) for text in said), fact.id


def test_the_pack_has_two_tasks_of_each_category_in_four_languages() -> None:
    cards = [load_task(FIXTURES, name).card for name in TASKS]
    categories = Counter(card.category for card in cards)
    assert categories == dict.fromkeys(Category, 2)
    languages = Counter("javascript" if c.language == "typescript" else c.language for c in cards)
    assert languages["python"] >= 4
    assert min(languages[name] for name in ("go", "rust", "javascript")) >= 3
    vendored = sum(load_task(FIXTURES, name).source.kind == "vendored" for name in TASKS)
    assert len(cards) - vendored >= 8


def test_tasks_of_one_repository_share_one_timeline() -> None:
    """One history is the beginning of the other, so their memories must be told apart."""
    histories = defaultdict(list)
    for name in TASKS:
        loaded = load_task(FIXTURES, name)
        histories[loaded.card.source].append(loaded.history.episodes)
    for several in histories.values():
        longest = max(several, key=len)
        assert all(episodes == longest[: len(episodes)] for episodes in several)


@pytest.mark.parametrize("name", sorted(set(TASKS) - MADE_BEFORE))
def test_a_curated_file_is_what_its_program_makes_of_the_history(name: str) -> None:
    curated = load_curated(FIXTURES, name)
    program = FIXTURES / "curated" / "curator.py"
    text, log = runpy.run_path(str(program))["curated"](load_task(FIXTURES, name).history)
    assert (text, log) == (curated.text, curated.log.model_dump(mode="json"))

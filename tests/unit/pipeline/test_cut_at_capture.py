"""Promise: what capture cuts off the end of an event is told, and a fact that stood there is lost at capture."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from orchestrator.agents.scripted import ScriptedDriver
from orchestrator.cli.main import main
from orchestrator.core.places import fixtures_root
from orchestrator.memory.reference.capture import MAX_KEPT_CHARS
from orchestrator.memory.tokens import TokenCounter
from orchestrator.model.attribution import Failure
from orchestrator.model.task import Event, History
from orchestrator.pipeline import byhand
from orchestrator.pipeline.memory import adapter_of
from orchestrator.sources.loader import LoadedTask, load_conditions, load_task
from tests.rehearsed import rehearse

(ARM,) = (c for c in load_conditions(fixtures_root()).conditions if c.id == "reference_e2e")
TASK = "depotfeed-returns"


@pytest.fixture
def logged() -> LoadedTask:
    """A task whose facts stand behind more output than capture keeps of one event."""
    task = load_task(fixtures_root(), TASK)
    resting = {name for fact in task.key.card.gold_facts for name in fact.supporting_event_ids}

    def behind_a_log(event: Event) -> Event:
        log = f"log of {event.event_id}\n" * (MAX_KEPT_CHARS // 8)
        text = log + event.text if event.event_id in resting else event.text
        return event.model_copy(update={"text": text})

    episodes = tuple(
        episode.model_copy(update={"events": tuple(behind_a_log(e) for e in episode.events)})
        for episode in task.history.episodes
    )
    return replace(task, history=History(task_id=TASK, episodes=episodes))


def test_a_trial_charges_capture_for_what_it_cut_off(logged):
    counter = TokenCounter()
    seen = rehearse(
        logged, ARM, adapter_of(ARM, None, counter)(), counter, ScriptedDriver("follower")
    )
    assert [fact.captured == fact.supporting for fact in seen.trace.facts] == [True, True]
    charged = seen.charged(True)
    assert charged.failure is Failure.EVIDENCE_NOT_CAPTURED
    assert charged.evidence[0].endswith("not captured: what was cut off their ends")


def test_explain_names_capture_and_how_much_it_cut_off(logged, monkeypatch, capsys):
    monkeypatch.setattr(byhand, "load_task", lambda *_: logged)
    words = ["memory", "explain", "--task", TASK, "--condition", ARM.id]
    assert main([*words, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert {fact["lost_at"] for fact in facts} == {"captured"}
    assert all("characters cut off" in fact["seen"][0][1] for fact in facts)


def test_ingest_counts_what_was_cut_off(tmp_path, capsys):
    at = "2026-01-05T09:00:00Z"
    event = {"event_id": "e1", "at": at, "role": "user", "text": "y" * (MAX_KEPT_CHARS + 73)}
    episode = {"episode_id": "s1", "started_at": at, "events": [event]}
    path = tmp_path / "history.json"
    path.write_text(json.dumps({"schema_version": 1, "task_id": "t", "episodes": [episode]}))
    assert main(["memory", "ingest", "--condition", ARM.id, "--history", str(path)]) == 0
    assert "73 characters of 1 captured event not kept" in capsys.readouterr().out

"""The variant that asks a model: through a trial's own gateway, over the official client, to a frozen store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from orchestrator.core.errors import EnvironmentMissing
from orchestrator.gateway.scripted import ScriptedMode
from orchestrator.memory.reference import make
from orchestrator.memory.sessions import HistoryClock
from orchestrator.memory.supplies import Supplies
from orchestrator.model.script import Scenario, Script, ScriptedTurn
from orchestrator.pipeline.asking import asker_of
from orchestrator.protocols import GatewayAccess, MemoryPlace
from tests.unit.gateway.support import running
from tests.unit.memory.lives import COUNTER
from tests.unit.memory.reference.talk import START, session

TALK = session(
    1,
    ("user", "The exporter writes semicolons between columns from now on."),
    ("assistant", "Understood."),
)
ANSWER = {
    "candidates": [
        {
            "kind": "decision",
            "text": "The exporter writes semicolons between columns.",
            "evidence_event_ids": ["d01-e01"],
        }
    ]
}


def adapter():
    return make("reference", Supplies(COUNTER, variant="model_extraction", asks=asker_of))


@contextmanager
def place(folder: Path, turn: ScriptedTurn) -> Iterator[MemoryPlace]:
    """A place whose gateway plays one turn to the memory role."""
    script = Script(scenarios=(Scenario(name="extract", role="memory", turns=(turn,)),))
    work = folder / "work"
    work.mkdir()
    with running(ScriptedMode(script), folder) as gateway:
        opened = gateway.open()
        access = GatewayAccess("http://gateway", opened.token("memory"), "model-1")
        yield MemoryPlace(work, work, access, HistoryClock(START), None, 1, opened.folder)


def test_a_model_proposes_and_the_policy_decides(tmp_path: Path):
    with place(tmp_path, ScriptedTurn(text=json.dumps(ANSWER))) as given:
        made = adapter()
        made.open(given)
        made.ingest(TALK)
        report = made.settle(60)
        snapshot = made.freeze()
        made.close()
    assert report.extractor == "llm-1:model-1"
    assert [(task.state, task.model) for task in report.tasks] == [("done", "model-1")]
    assert [c.rule for c in report.candidates] == ["p1-stated"]
    assert snapshot.memories == 1


def test_a_refused_request_is_a_failed_task_and_no_crash(tmp_path: Path):
    with place(tmp_path, ScriptedTurn(text="no", fail_status=400)) as given:
        made = adapter()
        made.open(given)
        made.ingest(TALK)
        (task,) = made.settle(60).tasks
        made.close()
    assert task.state == "failed"
    assert "model-unanswered" in (task.error or "")


def test_without_a_gateway_it_does_not_open(tmp_path: Path):
    given = MemoryPlace(tmp_path, tmp_path, None, HistoryClock(START), None, 1)
    with pytest.raises(EnvironmentMissing) as missing:
        adapter().open(given)
    assert missing.value.reference == "memory-model-missing"


def test_it_says_that_a_model_extracts_before_it_is_opened():
    assert adapter().describe().extractor == "llm-1"

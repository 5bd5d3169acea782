"""Promise: the code that a trial uses is the code that its arm is pinned by, at every trial."""

from __future__ import annotations

import shutil
from typing import NoReturn

import pytest

from orchestrator.core.errors import IntegrityError
from orchestrator.core.places import fixtures_root
from orchestrator.model.condition import Condition
from orchestrator.pipeline.byhand import Asked, live_by_hand
from orchestrator.pipeline.memory import adapter_of, check_pins
from orchestrator.sources.loader import load_conditions
from tests.unit.memory.lives import COUNTER
from tests.unit.pipeline.conftest import ROOT

EXAMPLE = ROOT / "docs" / "how-to" / "memory-example"


@pytest.fixture
def example(tmp_path, monkeypatch) -> Condition:
    """The arm of the guide, in a folder of its own."""
    shutil.copytree(EXAMPLE, tmp_path / "mine")
    monkeypatch.setenv("MEMTRIAL_CONDITIONS", str(tmp_path / "mine" / "conditions.json"))
    return next(
        c for c in load_conditions(fixtures_root()).conditions if c.program and not c.product
    )


def unused(*_: object) -> NoReturn:
    raise AssertionError("nothing is started here")


def test_a_program_that_changes_after_the_plan_is_used_by_no_further_trial(example, tmp_path):
    check_pins((example,))
    adapter_of(example, None, COUNTER, unused)
    program = next((tmp_path / "mine" / (example.program or "")).glob("main*"))
    program.write_bytes(program.read_bytes() + b"\n# swapped\n")
    with pytest.raises(IntegrityError, match=f"condition {example.id}: expected adapter"):
        adapter_of(example, None, COUNTER, unused)


def test_code_by_hand_is_tried_before_it_is_pinned_and_that_is_said(monkeypatch):
    known = load_conditions(fixtures_root())
    other = tuple(
        c.model_copy(update={"adapter_sha256": "0" * 64}) if c.id == "raw_fts" else c
        for c in known.conditions
    )
    monkeypatch.setattr(
        "orchestrator.pipeline.byhand.load_conditions",
        lambda _: known.model_copy(update={"conditions": other}),
    )
    found = live_by_hand(
        Asked(condition="raw_fts", task="depotfeed-returns"), fixtures=fixtures_root()
    )
    assert (found.pinned, found.remembered.failure) == (False, None)
    assert live_by_hand(
        Asked(condition="full_history", task="depotfeed-returns"), fixtures=fixtures_root()
    ).pinned

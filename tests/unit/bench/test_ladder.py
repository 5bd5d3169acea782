"""Promise: a memory system that breaks on the ladder has failed its task, is named, and puts the ladder out of order."""

from __future__ import annotations

import pytest

from bench import ladder
from orchestrator.core.errors import DocumentError, EnvironmentMissing
from tests.unit.pipeline.test_memory_failures import as_tail
from tests.unit.testing import planted

TASK = "cachetools-account-key"
ARM = "raw_history_tail"


@pytest.fixture
def short(monkeypatch):
    monkeypatch.setattr(ladder, "ARMS", (ARM,))
    monkeypatch.setattr(ladder, "list_tasks", lambda _: (TASK,))
    return monkeypatch


def test_a_system_that_breaks_its_contract_has_failed_its_task(short):
    broken = as_tail(planted.CrashesInSettle)
    short.setattr(ladder, "adapter_of", lambda *_: broken)
    arms, absent = ladder.climb()
    assert not absent
    assert list(arms[ARM].failed) == list(arms[ARM].broken) == [TASK]
    assert "settle" in arms[ARM].failed[TASK]
    assert ladder.verdict_on(arms) == [f"{ARM} broke on 1 tasks ({TASK})"]


def test_a_system_that_cannot_be_made_has_failed_and_is_not_called_absent(short):
    def refuse(*_):
        raise DocumentError("curated-missing", "expected a file, found none", hint="write it")

    short.setattr(ladder, "adapter_of", refuse)
    arms, absent = ladder.climb()
    assert not absent
    assert "curated-missing" in arms[ARM].broken[TASK]


def test_an_arm_whose_code_is_not_installed_is_absent(short):
    def missing(_):
        raise EnvironmentMissing("adapter-missing", "found none", hint="install it")

    short.setattr(ladder, "check_available", missing)
    assert ladder.climb() == ({}, {ARM: "found none"})

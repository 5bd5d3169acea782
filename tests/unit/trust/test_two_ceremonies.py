"""Promise: of two ceremonies at once in one folder the second to write undoes nothing, and is told to begin again."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from orchestrator.core.errors import ApprovalRefused
from orchestrator.trust import ceremony
from orchestrator.trust.ceremony import BEFORE, STAGE, TUF, current, files_below
from orchestrator.trust.changes import refresh_root, withdraw_approval
from tests.unit.trust.support import CURATORS
from tests.unit.trust.test_ceremony import publish_one
from tests.unit.trust.test_proposals import ID, init

NOW_S = int(time.time())


@pytest.fixture
def approvals(tmp_path) -> Path:
    folder: Path = tmp_path
    init(folder)
    publish_one(folder)
    return folder


def just_before_the_next_write(monkeypatch, approvals: Path, what: Callable[[], object]) -> None:
    real = ceremony._write

    def late(folder: Path, new: Mapping[str, bytes]) -> None:
        monkeypatch.setattr(ceremony, "_write", real)
        what()
        real(folder, new)

    monkeypatch.setattr(ceremony, "_write", late)


def test_a_withdrawal_that_came_first_is_not_undone(monkeypatch, approvals):
    def withdraw() -> None:
        withdraw_approval(approvals, ID, CURATORS[0], reason="a mistake", now_s=NOW_S)

    just_before_the_next_write(monkeypatch, approvals, withdraw)
    with pytest.raises(ApprovalRefused) as refused:
        refresh_root(approvals, curator=CURATORS[1], now_s=NOW_S)
    assert refused.value.reference == "trust-root-changed"
    assert ID in current(approvals, now_s=NOW_S).notes
    assert not (approvals / STAGE).exists()
    refresh_root(approvals, curator=CURATORS[1], now_s=NOW_S)
    assert ID in current(approvals, now_s=NOW_S).notes


def test_the_root_of_one_that_was_killed_meanwhile_is_put_back_first(monkeypatch, approvals):
    before = files_below(approvals / TUF)

    def kill() -> None:
        (approvals / STAGE).mkdir()
        (approvals / TUF).rename(approvals / STAGE / BEFORE)

    just_before_the_next_write(monkeypatch, approvals, kill)
    refresh_root(approvals, curator=CURATORS[1], now_s=NOW_S)
    after = files_below(approvals / TUF)
    assert {name: after[name] for name in before if name != "metadata/timestamp.json"} == {
        name: data for name, data in before.items() if name != "metadata/timestamp.json"
    }
    assert current(approvals, now_s=NOW_S).approvals

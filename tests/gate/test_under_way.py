"""Promise: a run under way opens no attempt that a resume would be refused, and is told what to do about it."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

import pytest

from orchestrator.core.errors import ApprovalRefused
from orchestrator.model.gate import RootSeen
from orchestrator.trust.changes import change_roles, rotate_root
from orchestrator.trust.gate import official
from orchestrator.trust.gate.asked import GateAsked
from orchestrator.trust.gate.before import SEEN
from orchestrator.trust.gate.official import check_holds, dispatch
from orchestrator.trust.nonces import NonceBook
from tests.gate.attacks_more import withdrawn
from tests.gate.world import ID, OWNERS, World, ingredients, make_world
from tests.unit.trust.hostile_git import commit
from tests.unit.trust.support import APPROVERS, CURATORS, key

NEW = tuple(key(f"new owner {i}") for i in range(3))


@pytest.fixture
def world(clean_folder):
    return make_world(clean_folder, ingredients())


@pytest.fixture
def at_open(world, monkeypatch) -> Callable[[], tuple[ApprovalRefused, int]]:
    """A dispatched world; gives the refusal of the next attempt, and how often it was looked for."""
    monkeypatch.setattr(official, "AGAIN_S", 0)
    given = dispatch(world.asked())
    looks: list[None] = []

    def ask() -> GateAsked:
        looks.append(None)
        asked: GateAsked = world.asked()
        return asked

    def open_one() -> tuple[ApprovalRefused, int]:
        with pytest.raises(ApprovalRefused) as refused:
            check_holds(ask, given.envelope)
        return refused.value, len(looks)

    return open_one


def rotate(world: World) -> None:
    rotate_root(
        world.repo / "approvals",
        owners=tuple(owner.public for owner in NEW),
        old=OWNERS[:2],
        new=NEW[:2],
        curator=CURATORS[0],
        now_s=world.ingredients.now_s,
    )
    commit(world.repo, {})


def other_approver(world: World) -> None:
    """A third approver is replaced; those who signed stay."""
    change_roles(
        world.repo / "approvals",
        {"approver": (*(a.public for a in APPROVERS[:2]), key("another approver").public)},
        owners=OWNERS[:2],
        curator=CURATORS[0],
        now_s=world.ingredients.now_s,
    )
    commit(world.repo, {})


@pytest.mark.parametrize("change", [rotate, other_approver])
def test_another_root_ends_a_run_as_it_refuses_a_resume(world, at_open, change):
    change(world)
    found, looks = at_open()
    assert (found.check, found.reference, looks) == (9, "root-not-the-approved-one", 1)
    with pytest.raises(ApprovalRefused) as resumed:
        dispatch(world.asked())
    assert (resumed.value.check, resumed.value.reference) == (found.check, found.reference)


def test_a_window_that_ended_ends_a_run(world, at_open):
    world.changes["now_s"] = world.ingredients.approval["window"]["expires_s"]
    found, looks = at_open()
    assert (found.check, found.reference, looks) == (11, "approval-expired", 1)
    assert "after all was measured" not in found.message


def full(*_: Any, **__: Any) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_at_a_full_disk_no_attempt_is_opened_and_that_is_said_at_once(at_open, monkeypatch):
    monkeypatch.setattr(official, "write_atomic", full)
    found, looks = at_open()
    assert (found.reference, looks) == ("state-not-written", 1)
    assert found.message.endswith("; no attempt was opened")
    assert found.hint.endswith("then `memtrial resume RUN`")


def test_at_a_full_disk_nothing_is_dispatched_and_that_is_said(world, monkeypatch):
    monkeypatch.setattr(official, "write_atomic", full)
    with pytest.raises(ApprovalRefused) as refused:
        dispatch(world.asked())
    assert refused.value.message.endswith("; nothing was dispatched")
    assert refused.value.hint.endswith("then dispatch again")


def test_a_book_that_cannot_be_written_dispatches_nothing_and_that_is_said(world, monkeypatch):
    monkeypatch.setattr(NonceBook, "reserve", full)
    with pytest.raises(ApprovalRefused) as refused:
        dispatch(world.asked())
    assert "the use of the approval" in refused.value.message
    assert refused.value.message.endswith("; nothing was dispatched")


def notes_seen(world: World) -> tuple[str, ...]:
    return RootSeen.parse_canonical((world.state / SEEN).read_bytes(), where=SEEN).withdrawn


def test_a_withdrawal_that_a_refused_dispatch_saw_is_written_down(world):
    withdrawn(world)
    with pytest.raises(ApprovalRefused):
        dispatch(world.asked())
    assert notes_seen(world) == (ID,)


def test_a_withdrawal_that_a_look_saw_is_written_down(world, at_open):
    withdrawn(world)
    at_open()
    assert notes_seen(world) == (ID,)

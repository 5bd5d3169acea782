"""Promise: a look at an approval in use is repeated after a pause; an answer's bytes are judged before its meaning."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from orchestrator.core.errors import ApprovalRefused
from orchestrator.model.gate import ANSWER_TYPE
from orchestrator.trust.envelope import sign_new
from orchestrator.trust.gate.official import AGAIN_S, LOOKS, check_holds, validate
from tests.gate.world import ingredients, make_world
from tests.unit.trust.support import SUPERVISOR


@pytest.fixture
def world(clean_folder):
    return make_world(clean_folder, ingredients())


def test_between_two_looks_there_is_a_pause(world, monkeypatch):
    pauses: list[float] = []
    clock = SimpleNamespace(sleep=pauses.append)
    monkeypatch.setattr("orchestrator.trust.gate.official.time", clock)
    (world.repo / ".git/refs/remotes/origin/main").write_bytes(b"0" * 40 + b"\n")
    with pytest.raises(ApprovalRefused):
        check_holds(world.asked, b"what was used")
    assert pauses == [AGAIN_S] * (LOOKS - 1)


def test_an_answer_with_a_name_twice_is_refused_for_that(world):
    payload = b'{"uid":1,"uid":2}'
    answer = sign_new(payload, (SUPERVISOR,), payload_type=ANSWER_TYPE)
    found = validate(replace(world.asked(), challenge=lambda *_: answer)).refusal
    assert found is not None
    assert (found.check, found.reference) == (13, "json-duplicate-key")


def test_a_link_to_a_folder_in_the_work_tree_is_more_than_head_has(world, clean_folder):
    (clean_folder / "elsewhere").mkdir()
    (world.repo / "approvals/tuf/more").symlink_to(clean_folder / "elsewhere")
    found = validate(world.asked()).refusal
    assert found is not None
    assert (found.check, found.reference) == (4, "worktree-has-more")

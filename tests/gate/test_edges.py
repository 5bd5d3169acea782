"""Promise: at its very edges each step of the gate decides as it is written, and what a step may rely on is asked for."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from orchestrator.core.canonical import sha256_hex
from orchestrator.core.errors import ApprovalRefused
from orchestrator.model.approval import OfficialApproval, Upstream
from orchestrator.trust.gate import before, bindings, official
from orchestrator.trust.gate.asked import State, refuse
from orchestrator.trust.gate.bindings import check_time, paid_pin
from orchestrator.trust.gate.machine import MANIFEST
from orchestrator.trust.gate.official import validate
from tests.gate.world import World, ingredients, make_world, official_plan, smoke_plan
from tests.recorded import TINY, make_plan
from tests.unit.trust.support import SUPERVISOR, entry, key


def code(world: World) -> tuple[int | None, str] | None:
    found = validate(world.asked()).refusal
    return None if found is None else (found.check, found.reference)


@pytest.mark.parametrize(
    ("release", "kernel"),
    [
        ("6.1.0-13-amd64", (6, 1)),
        ("5.4-rc6", (5, 4)),
        ("5.10", (5, 10)),
        ("6.1rc3", (6, 1)),
        ("unknown", (0, 0)),
    ],
)
def test_a_kernels_version_is_its_first_two_numbers(monkeypatch, release, kernel):
    monkeypatch.setattr("os.uname", lambda: SimpleNamespace(release=release))
    assert before.this_host().kernel == kernel


@pytest.mark.parametrize(
    ("isolated", "no_user_site", "found"), [(1, 1, True), (1, 0, False), (0, 1, False)]
)
def test_a_process_is_isolated_when_it_follows_neither_folder_nor_users_packages(
    monkeypatch, isolated, no_user_site, found
):
    flags = SimpleNamespace(isolated=isolated, no_user_site=no_user_site)
    monkeypatch.setattr(before, "sys", SimpleNamespace(flags=flags, platform="linux"))
    assert before.this_host().isolated is found


@pytest.mark.parametrize(
    ("kernel", "found"),
    [
        ((5, 5), (0, "host-not-usable")),
        ((5, 6), None),
        ((5, 10), None),
        ((4, 20), (0, "host-not-usable")),
    ],
)
def test_the_oldest_kernel_is_5_6(clean_folder, kernel, found):
    world = make_world(clean_folder, ingredients())
    world.host = replace(world.host, kernel=kernel)
    world.changes["host"] = world.host
    assert code(world) == found


def test_a_plan_that_calls_no_provider_is_not_live():
    with pytest.raises(ApprovalRefused) as refused:
        paid_pin(make_plan(TINY))
    assert refused.value.reference == "plan-not-live"
    assert paid_pin(smoke_plan()) is smoke_plan().gateway


def test_a_diagnostic_plan_is_not_live_whoever_it_calls():
    with pytest.raises(ApprovalRefused, match="plan with a real model"):
        paid_pin(smoke_plan().model_copy(update={"diagnostic": True}))


UPSTREAMS = [
    ("organisation", "https://api.example.com", True),
    ("organisation", "http://127.0.0.1:9", False),
    ("rehearsal", "http://127.0.0.1:9", True),
    ("rehearsal", "https://api.example.com", False),
]


@pytest.mark.parametrize(("kind", "origin", "passes"), UPSTREAMS)
def test_an_official_run_calls_a_provider_and_a_rehearsal_a_fake_of_one(kind, origin, passes):
    plan = official_plan()
    upstream = Upstream(provider="openai", origin=origin)
    assert plan.gateway is not None
    pinned = plan.model_copy(
        update={"gateway": plan.gateway.model_copy(update={"upstream": upstream})}
    )
    # Of the approval only its kind decides here; what it says differs, and whoever walks the pairs compares.
    fields: dict[str, Any] = dict.fromkeys(OfficialApproval.model_fields)
    fields |= dict.fromkeys(("runner", "inputs"), MagicMock())
    approval = OfficialApproval.model_construct(**fields)
    walk = bindings._of_plan(approval, pinned, kind)
    if passes:
        assert [name for name, _, _ in walk][-1] == "images"
        return
    with pytest.raises(ApprovalRefused) as refused:
        list(walk)
    assert refused.value.reference == "upstream-not-a-provider"


def test_a_manifest_that_is_approved_and_no_manifest_is_refused(clean_folder):
    made = ingredients()
    made.approval["supervisor"]["manifest_sha256"] = sha256_hex(b"{}")
    world = make_world(clean_folder, made)
    (world.system / MANIFEST).write_bytes(b"{}")
    assert code(world) == (12, "manifest-invalid")


def test_an_answer_by_another_supervisor_of_the_role_is_refused(clean_folder):
    made, other = ingredients(), key("another supervisor")
    made.roles["roles"]["supervisor"]["keys"] = sorted(
        (entry(SUPERVISOR.public), entry(other.public)), key=lambda e: e["keyid"]
    )
    world = make_world(clean_folder, made)
    world.answer_keys = (other,)
    assert code(world) == (13, "another-supervisor")


def test_a_file_that_the_system_will_not_read_refuses_with_the_number_of_its_step(
    clean_folder, monkeypatch
):
    def fails(_: State) -> None:
        raise OSError(5, "Input/output error")

    steps = (*official.STEPS[:3], ("failing", fails), *official.STEPS[4:])
    monkeypatch.setattr(official, "STEPS", steps)
    world = make_world(clean_folder, ingredients())
    assert code(world) == (3, "file-not-readable")


def state_of(**changes: Any) -> Any:
    window = SimpleNamespace(not_before_s=100, expires_s=200)
    approval = SimpleNamespace(window=window)
    facts = {
        "asked": SimpleNamespace(now_s=150),
        "approved": lambda: approval,
        "repository": SimpleNamespace(committed_s=lambda _: 50),
        "head": "h",
    }
    return SimpleNamespace(**{**facts, **changes})


@pytest.mark.parametrize(
    ("now_s", "committed_s", "reference"),
    [
        (100, 100, None),
        (199, 50, None),
        (99, 50, "approval-not-yet-valid"),
        (200, 50, "approval-expired"),
        (150, 151, "clock-set-back"),
        (150, 150, None),
    ],
)
def test_the_window_and_the_head_decide_to_the_second(now_s, committed_s, reference):
    state = state_of(
        asked=SimpleNamespace(now_s=now_s),
        repository=SimpleNamespace(committed_s=lambda _: committed_s),
    )
    if reference is None:
        check_time(state)
        return
    with pytest.raises(ApprovalRefused) as refused:
        check_time(state)
    assert refused.value.reference == reference


def test_as_many_provider_calls_as_agent_calls_are_enough(clean_folder):
    made = ingredients()
    made.approval["caps"]["max_provider_calls"] = made.approval["caps"]["max_agent_calls"]
    assert code(make_world(clean_folder, made)) is None


def test_a_book_that_has_not_grown_since_it_was_signed_is_the_approved_one(clean_folder):
    made = ingredients()
    made.used = made.used[:2]
    assert code(make_world(clean_folder, made)) is None


def test_an_answer_to_another_question_is_told_by_what_differs(clean_folder):
    world = make_world(clean_folder, ingredients())
    world.answer["identity"] = "supervisor-two"
    found = validate(world.asked()).refusal
    assert found is not None
    assert found.reference == "answer-to-another-question"
    assert found.message.endswith("found identity")


def test_a_refusal_has_its_own_next_step_or_the_list_of_codes():
    assert refuse("r", "a", "b", hint="do this").hint == "do this"
    assert "docs/security/refusals.md" in refuse("r", "a", "b").hint

"""Promise: what of a plan nothing in its bundle gives is named, field by field, and nothing else is taken over."""

from __future__ import annotations

import pytest

from orchestrator.audit.replan import rebuild
from orchestrator.audit.verify import examine
from orchestrator.audit.view import MemoryView
from orchestrator.core.errors import Negative
from orchestrator.model.plan import setting_of


@pytest.fixture(scope="module")
def seen(eight):
    return examine(MemoryView(eight.files), eight.trust, name="eight")


def rebuilt(seen, plan, *, same_program=True):
    registry = seen.opened.card.registry_sha256
    return rebuild(plan, seen.opened.files, registry_sha256=registry, same_program=same_program)


def with_profile(plan, profile_sha256):
    """The plan as a program with another hardening profile would have made it."""
    arms = tuple(
        setting_of(
            *(plan.task(arm.task_id), arm.condition_id, plan.agents, plan.retry, profile_sha256)
        )
        for arm in plan.arms
    )
    return plan.model_copy(update={"profile_sha256": profile_sha256, "arms": arms})


def test_the_remark_names_exactly_the_fields_that_were_not_rebuilt(seen):
    assert rebuilt(seen, seen.dossier.plan).own_word == (
        *("phase", "namespace", "task_set", "matrix", "epochs", "order_seed"),
        *("source_revision", "source_dirty", "agents", "runtime", "toolchain"),
        *("tasks.agent_image", "tasks.verifier_image", "tasks.agent_images"),
    )


def test_a_constant_of_another_program_is_its_word_and_of_this_one_a_lie(seen):
    plan = with_profile(seen.dossier.plan, "0" * 64)
    assert "profile_sha256" in rebuilt(seen, plan, same_program=False).own_word
    with pytest.raises(Negative, match="profile_sha256"):
        rebuilt(seen, plan)


def test_the_code_of_a_memory_system_is_compared_with_the_one_here(seen):
    plan, (_, curated) = seen.dossier.plan, seen.dossier.plan.conditions
    other = curated.model_copy(update={"adapter_sha256": "0" * 64})
    with pytest.raises(Negative, match="conditions"):
        rebuilt(seen, plan.model_copy(update={"conditions": (plan.conditions[0], other)}))


def test_an_input_that_was_withheld_leaves_what_follows_from_it_to_the_plan(seen, eight):
    pins = seen.dossier.plan.tasks[0].digests
    files = dict(eight.files)
    gone = next(
        n for n in files if n.startswith(f"blobs/{pins.history_sha256[:2]}/{pins.history_sha256}")
    )
    opened = seen.opened.files
    opened = type(opened)(opened._view, opened._digests, frozenset({gone}))
    found = rebuild(
        seen.dossier.plan,
        opened,
        registry_sha256=seen.opened.card.registry_sha256,
        same_program=True,
    )
    assert found.withheld == (pins.history_sha256,)
    assert "parity" in found.own_word

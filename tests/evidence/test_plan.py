"""Promise: what of a plan nothing in its bundle gives is named, field by field, and nothing else is taken over."""

from __future__ import annotations

import json
import shutil

import pytest

from orchestrator.attest import layout
from orchestrator.attest.program import program_sha256
from orchestrator.audit.replan import rebuild
from orchestrator.audit.verify import examine, verify_bundle
from orchestrator.audit.view import FolderView, MemoryView
from orchestrator.core.errors import Negative
from orchestrator.model.plan import setting_of
from tests.evidence.case_operations import replan
from tests.evidence.insider_operations import document, put, rebind, stage_of, trials_of
from tests.evidence.tamper import rewrite_record


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


@pytest.mark.parametrize(
    ("begun_by", "code"),
    [("f" * 64, 0), (None, 0), (program_sha256(), 1)],
    ids=["other", "none", "this"],
)
def test_whose_constants_a_plan_must_have_is_said_by_who_began_the_run_not_by_who_sealed_it(
    eight, tmp_path, begun_by, code
):
    """An older run keeps the profile of its time, also where a later memtrial seals it again."""
    folder = tmp_path / "old"
    shutil.copytree(eight.folder, folder)
    adopt = replan(folder, "profile")

    def begin(entries, blobs):
        adopt(entries, blobs)
        profile = json.loads((folder / layout.PLAN).read_bytes())["profile_sha256"]
        for trial in trials_of(entries):
            body = stage_of(entries, trial, "prepare")
            put(blobs, body, document(blobs, body) | {"profile_sha256": profile})
            rebind(entries, blobs, trial)
        started = entries[0]["body"]
        started["program_sha256"] = begun_by
        if begun_by is None:
            del started["program_sha256"]

    rewrite_record(folder, begin, eight.key)
    answer = verify_bundle(FolderView(folder), eight.trust, name="old")
    assert (answer.exit_code, [c.name for c in answer.failed]) == (code, ["plan"] * code)


def test_the_registry_that_gives_the_arms_is_told_by_its_digest(seen):
    plan = next(check for check in seen.answer.checks if check.name == "plan")
    assert f"registry with SHA-256 {seen.opened.card.registry_sha256}" in plan.detail


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

"""Promise: a plan is run only if it is, field by field, what its own request gives here."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from orchestrator.core.canonical import canonical_bytes
from orchestrator.core.errors import DocumentError, IntegrityError, MemtrialError
from orchestrator.model.plan import Plan, setting_of
from orchestrator.model.plan import Retry as RetryPolicy
from orchestrator.pipeline.fits import check_fits, request_of
from orchestrator.pipeline.options import PlanRequest
from orchestrator.pipeline.plan import build_plan
from tests.unit.pipeline.conftest import IMAGE, ROOT

TWO: dict[str, Any] = {
    "agents": ("noop", "oracle"),
    "conditions": ("no_memory", "curated_file_budgeted"),
    "tasks": ("depotfeed-returns", "humanize-transfer-eta"),
    "epochs": 2,
    "order_seed": 7,
    "namespace": "other",
}
Edit = Callable[[dict[str, Any]], object]


def build(request: PlanRequest) -> Plan:
    return build_plan(
        request,
        fixtures=ROOT / "fixtures",
        images=ROOT / "images",
        image_pins=lambda _: (IMAGE, IMAGE.model_copy(update={"id": "sha256:" + "3" * 64})),
    )


@pytest.fixture(scope="module")
def plan() -> Plan:
    return build(PlanRequest(**TWO))


def edited(plan: Plan, change: Edit) -> Plan:
    """Edits a plan as a forger would: the settings of the arms follow the edited pins."""
    document = json.loads(plan.canonical())
    change(document)
    loose = plan.model_copy(
        update={
            "tasks": tuple(
                type(plan.tasks[0]).model_validate_json(json.dumps(t)) for t in document["tasks"]
            ),
            "agents": tuple(
                type(plan.agents[0]).model_validate_json(json.dumps(a)) for a in document["agents"]
            ),
        }
    )
    document["arms"] = [
        setting_of(
            loose.task(arm["task_id"]),
            arm["condition_id"],
            loose.agents,
            RetryPolicy.model_validate(document["retry"]),
            document["profile_sha256"],
        ).model_dump(mode="json")
        for arm in document["arms"]
    ]
    return Plan.parse(canonical_bytes(document), where="plan.json")


def refused(plan: Plan) -> MemtrialError:
    with pytest.raises((DocumentError, IntegrityError)) as caught:
        check_fits(plan, build, lambda _: None)
    assert caught.value.reference == "plan-does-not-fit"
    return caught.value


def test_a_plan_gives_back_the_request_that_it_was_made_from(plan: Plan) -> None:
    assert build(request_of(plan)).canonical() == plan.canonical()
    check_fits(plan, build, pytest.fail)


@pytest.mark.parametrize(
    ("field", "change", "exit_code"),
    [
        ("profile_sha256", lambda d: d.update(profile_sha256="f" * 64), 3),
        ("tasks.0.limits.wall_s", lambda d: d["tasks"][0]["limits"].update(wall_s=86_400), 3),
        (
            "tasks.1.verifier_image.id",
            lambda d: d["tasks"][1].update(verifier_image=d["tasks"][1]["agent_image"]),
            3,
        ),
        ("tasks.0.tree", lambda d: d["tasks"][0].update(tree="0" * 40), 3),
        ("tasks.0.commit", lambda d: d["tasks"][0].update(commit="0" * 40), 3),
        (
            "tasks.0.digests.key_sha256",
            lambda d: d["tasks"][0]["digests"].update(key_sha256="e" * 64),
            6,
        ),
        (
            "agents.0.program_sha256",
            lambda d: [a.update(program_sha256="e" * 64) for a in d["agents"]],
            6,
        ),
        ("curated.0.log_sha256", lambda d: d["curated"][0].update(log_sha256="e" * 64), 6),
        ("curated.1", lambda d: d["curated"].pop(), 3),
        ("toolchain.sqlite_version", lambda d: d["toolchain"].update(sqlite_version="3.0.0"), 3),
        (
            "toolchain.tokenizer_data_sha256",
            lambda d: d["toolchain"].update(tokenizer_data_sha256="e" * 64),
            6,
        ),
        ("retry.max_attempts", lambda d: d["retry"].update(max_attempts=10), 3),
        ("conditions.1.summary", lambda d: d["conditions"][1].update(summary="x"), 3),
        ("trials.0", lambda d: d.update(trials=_swapped(d["trials"])), 3),
    ],
)
def test_the_first_field_that_differs_is_refused_by_name_with_both_values(
    plan: Plan, field: str, change: Edit, exit_code: int
) -> None:
    error = refused(edited(plan, change))
    assert error.message.startswith(f"plan, {field}")
    assert "expected " in error.message
    assert "found " in error.message
    assert error.exit_code == exit_code


def _swapped(trials: list[dict[str, Any]]) -> list[dict[str, Any]]:
    first, second, *rest = trials
    return [{**second, "seq": 0}, {**first, "seq": 1}, *rest]


@pytest.mark.parametrize("what", ["tasks", "conditions", "agents", "curated"])
def test_a_name_that_occurs_twice_is_no_plan(plan: Plan, what: str) -> None:
    document = json.loads(plan.canonical())
    document[what].append(document[what][0])
    with pytest.raises(DocumentError, match=f"{what} must be unique"):
        Plan.parse(canonical_bytes(document), where="plan.json")


def test_a_plan_that_names_what_is_not_here_is_refused_as_a_document(plan: Plan) -> None:
    def rename(document: dict[str, Any]) -> None:
        text = json.dumps(document).replace("depotfeed-returns", "depotfeed-gone")
        document.clear()
        document.update(json.loads(text))

    error = refused(edited(plan, rename))
    assert error.exit_code == 3
    assert "depotfeed-gone" in error.message


def test_another_revision_is_told_in_phase_local(plan: Plan) -> None:
    told: list[str] = []
    other = edited(plan, lambda d: d.update(source_revision="git:" + "0" * 40, source_dirty=False))
    check_fits(other, build, told.append)
    assert len(told) == 1
    assert "git:" + "0" * 40 in told[0]


def test_another_revision_is_refused_in_any_other_phase(plan: Plan) -> None:
    other = edited(plan, lambda d: d.update(phase="smoke", source_revision="git:" + "0" * 40))

    def rebuild(_: PlanRequest) -> Plan:
        return plan.model_copy(update={"phase": "smoke"})

    with pytest.raises(DocumentError, match="source_revision") as caught:
        check_fits(other, rebuild, lambda _: None)
    assert caught.value.reference == "plan-of-another-memtrial"
    assert caught.value.exit_code == 3

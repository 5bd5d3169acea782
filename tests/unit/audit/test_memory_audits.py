"""The memory audit: what it states follows from the record, or it is refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orchestrator.audit.memory import AuditFacts, verify_audit
from orchestrator.core.canonical import canonical_bytes, sha256_hex
from orchestrator.core.errors import MemtrialError
from orchestrator.core.places import fixtures_root
from orchestrator.memory.tokens import TokenCounter
from orchestrator.model.attribution import Failure
from orchestrator.model.memory_audit import (
    BINDING_DOMAIN,
    MemoryAudit,
    NotApplicable,
    hashes_of,
    parse_audit,
)
from orchestrator.scoring.contract import Audited, audit_of, used_of
from orchestrator.sources.loader import load_task
from tests import sabotage
from tests.rehearsed import Rehearsed

CASES = Path(__file__).resolve().parents[2] / "cases" / "memory_audits"
PLAN = "1" * 64
TASK = "click-workspace-lock"


def rehearse(condition_id: str) -> Rehearsed:
    return sabotage.rehearsed(load_task(fixtures_root(), TASK), condition_id, TokenCounter())


@pytest.fixture(scope="module")
def honest() -> Rehearsed:
    return rehearse(sabotage.HONEST)


def given(trial: Rehearsed, control: bool | None = False) -> Audited:
    return Audited(
        plan_sha256=PLAN,
        trial=trial.trace.trial,
        remembered=trial.remembered,
        injection=trial.injection,
        trace=trial.trace,
        verdict=trial.verdict,
        control=control,
    )


def facts(trial: Rehearsed) -> AuditFacts:
    return AuditFacts(
        plan_sha256=PLAN,
        trial=trial.trace.trial,
        applies=trial.trace.applies,
        remembered=trial.remembered,
        injection=trial.injection,
        trace=trial.trace,
    )


def made(trial: Rehearsed, control: bool | None = False) -> MemoryAudit:
    audit = audit_of(given(trial, control))
    assert isinstance(audit, MemoryAudit)
    return audit


def test_a_sound_audit_is_verified(honest):
    audit = made(honest)
    assert verify_audit(audit.canonical(), facts(honest), where="audit") == "verified"
    assert audit.injected == audit.selected
    assert audit.counts.missing_relevant == 0
    assert audit.used == ("m-f1", "m-f2", "m-f3")


@pytest.mark.parametrize("name", sorted(path.name for path in CASES.glob("*_refused")))
def test_an_audit_that_does_not_follow_from_the_record_is_refused(honest, name):
    case = json.loads((CASES / name / "case.json").read_bytes())
    data = changed(made(honest), case)
    with pytest.raises(MemtrialError) as refused:
        verify_audit(data, facts(honest), where="audit")
    assert refused.value.reference == case["expect"]["reference"]
    assert case["expect"]["says"] in refused.value.message.lower() + refused.value.message


def changed(audit: MemoryAudit, case: dict[str, Any]) -> bytes:
    document = audit.model_dump(mode="json")
    for path, value in case["set"].items():
        *parents, last = [int(p) if p.isdigit() else p for p in path.split("/")]
        place: Any = document
        for part in parents:
            place = place[part]
        place[last] = value
    for name in case["remove"]:
        del document[name]
    if case["rehash"]:
        again = MemoryAudit.model_validate_json(json.dumps(document))
        document |= hashes_of(again)
    if case.get("binding_without_domain"):
        bound = {
            name: document[name]
            for name in ("audit_sha256", "context_plan_sha256", "injected_text_sha256", "plan_sha256", "prompt_sha256", "trial")
        }  # fmt: skip
        document["binding_sha256"] = sha256_hex(canonical_bytes(bound))
        assert sha256_hex(BINDING_DOMAIN + canonical_bytes(bound)) == audit.binding_sha256
    if case.get("not_applicable"):
        names = NotApplicable.model_fields.keys() - {"status"}
        document = {name: document[name] for name in names} | {"status": "not_applicable"}
    return json.dumps(document).encode() if case.get("spaced") else canonical_bytes(document)


@pytest.mark.parametrize("step", sabotage.CRASHES)
def test_a_broken_contract_is_stated_and_verified_as_such(step):
    broken = rehearse(sabotage.crash_arm(step))
    audit = made(broken)
    assert verify_audit(audit.canonical(), facts(broken), where="audit") == "contract_failure"
    assert audit.runtime_contract_failure_reason is not None
    assert audit.runtime_contract_failure_reason.startswith(step)
    assert audit.injected == ()


def test_a_broken_contract_cannot_be_left_out(honest):
    broken = rehearse(sabotage.crash_arm("retrieve"))
    sound = made(broken).model_copy(
        update={
            "status": "verified",
            "runtime_contract_failure": False,
            "runtime_contract_failure_reason": None,
        }
    )
    data = sound.model_copy(update=hashes_of(sound)).canonical()
    with pytest.raises(MemtrialError, match="runtime_contract_failure"):
        verify_audit(data, facts(broken), where="audit")


@pytest.mark.parametrize(("information", "failure"), [("none", None), ("curated", None)])
def test_arms_without_a_memory_system_carry_no_evidence(honest, information, failure):
    trace = honest.trace.model_copy(update={"information": information})
    bare = audit_of(given(Rehearsed(**{**vars(honest), "trace": trace})))
    assert isinstance(bare, NotApplicable)
    assert set(bare.model_dump()) == {
        "plan_version",
        "bundle_version",
        "trial",
        "condition_id",
        "plan_sha256",
        "injection_sha256",
        "status",
    }
    without = facts(honest)
    without = AuditFacts(
        PLAN, without.trial, False, without.remembered, without.injection, without.trace
    )
    assert verify_audit(bare.canonical(), without, where="audit") == "not_applicable"
    with pytest.raises(MemtrialError, match="memory system"):
        verify_audit(made(honest).canonical(), without, where="audit")


@pytest.mark.parametrize(
    ("resolved", "control", "effect"),
    [
        (True, False, (True, False)),
        (True, True, (False, False)),
        (False, True, (False, True)),
        (False, False, (False, False)),
        (True, None, (None, None)),
    ],
)
def test_memory_helped_or_hurt_against_the_same_cell_without_it(honest, resolved, control, effect):
    trial = honest if resolved else rehearse(sabotage.arm_of(Failure.RETRIEVED_BUT_IGNORED))
    audit = made(trial, control)
    assert (audit.memory_helped, audit.memory_hurt) == effect
    assert verify_audit(audit.canonical(), facts(trial), where="audit") == "verified"


def test_a_dropped_memory_is_dropped_with_its_reason():
    trial = rehearse(sabotage.arm_of(Failure.CONTEXT_BUDGET_DROPPED))
    audit = made(trial)
    assert audit.truncation_reason == "over_budget"
    assert {drop.memory_id for drop in audit.dropped} >= {"m-f1", "m-f2", "m-f3"}
    assert audit.counts.missing_relevant == len(audit.facts)


def test_citations_are_counted_against_what_holds_a_fact(honest):
    trace = honest.trace.model_copy(update={"cited": ("d0", "ghost", "m-f1")})
    audit = made(Rehearsed(**{**vars(honest), "trace": trace}))
    assert (audit.citation_precision.passed, audit.citation_precision.of) == (1, 3)
    assert (audit.citation_recall.passed, audit.citation_recall.of) == (1, 3)
    assert audit.used == ("m-f1", "m-f2", "m-f3", "d0")


def test_a_superseded_value_in_the_change_is_a_use(honest):
    candidates = made(honest).candidates
    stale = candidates[0].model_copy(update={"stale_facts": ("s1",), "facts": ()})
    used = used_of((stale, *candidates[1:]), ("m-f1",), (), ("s1",), passes=False)
    assert used == ("m-f1",)


def test_an_audit_is_its_own_canonical_bytes(honest):
    data = made(honest).canonical()
    assert parse_audit(data, where="audit").canonical() == data

"""Promise: an audit's figures and hashes follow from its entries, and an audit of another version is not read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from orchestrator.core.canonical import canonical_bytes, sha256_hex
from orchestrator.core.errors import DocumentError
from orchestrator.model.lifecycle import ContractFailure
from orchestrator.model.memory_audit import (
    BINDING_DOMAIN,
    MemoryAudit,
    NotApplicable,
    counts_of,
    hashes_of,
    parse_audit,
    told_failure,
)
from orchestrator.model.trace import contract_status
from tests.unit.model.sound import FAILURE, SHA

OTHER = "b" * 64
AUDIT: dict[str, Any] = {
    "trial": "t",
    "condition_id": "c",
    "plan_sha256": SHA,
    "injection_sha256": SHA,
    "status": "verified",
    "selected": ["m1", "m2", "m3"],
    "dropped": [],
    "candidates": [
        {"memory_id": "m1", "rank": 1, "tokens": 1, "text_sha256": SHA, "facts": ["f1"]},
        {"memory_id": "m2", "rank": 2, "tokens": 1, "text_sha256": SHA, "stale_facts": ["s1"]},
        {"memory_id": "m3", "rank": 3, "tokens": 1, "text_sha256": SHA},
    ],
    "budget": {"unit": "o200k_base", "k": 3, "max_tokens": 9, "tokens": 3},
    "facts": [{"fact_id": "f1", "delivered": True}, {"fact_id": "f2", "delivered": False}],
    "stale_followed": [],
    "injected": ["m1", "m2", "m3"],
    "cited": ["m1", "m3"],
    "used": ["m1", "m2"],
    "counts": dict.fromkeys(
        (
            *("candidates", "selected", "dropped", "injected", "cited", "used"),
            *("stale_used", "irrelevant_injected", "missing_relevant"),
        ),
        0,
    ),
    **{key: {"passed": 0, "of": 0} for key in ("citation_precision", "citation_recall")},
    "resolved": True,
    "memory_helped": None,
    "memory_hurt": None,
    "truncation_reason": None,
    "degraded_mode": [],
    "runtime_contract_failure": False,
    "runtime_contract_failure_reason": None,
    "injected_text_sha256": SHA,
    "prompt_sha256": OTHER,
    "context_plan_sha256": SHA,
    "audit_sha256": SHA,
    "binding_sha256": SHA,
}


def audit(**changes: Any) -> MemoryAudit:
    return MemoryAudit.model_validate_json(json.dumps({**AUDIT, **changes}))


def test_an_audits_counts_follow_from_its_entries():
    counts, precision, recall = counts_of(audit())
    assert counts.model_dump() == {
        "candidates": 3,
        "selected": 3,
        "dropped": 0,
        "injected": 3,
        "cited": 2,
        "used": 2,
        "stale_used": 1,
        "irrelevant_injected": 2,
        "missing_relevant": 1,
    }
    assert [(c.passed, c.of) for c in (precision, recall)] == [(1, 2), (1, 1)]


def test_a_memory_that_was_cited_and_not_injected_is_no_hit():
    _, precision, recall = counts_of(audit(injected=["m3"]))
    assert [(c.passed, c.of) for c in (precision, recall)] == [(0, 2), (0, 0)]


def test_an_audits_binding_covers_both_hashes_and_what_the_agent_got():
    found = audit()
    hashes = hashes_of(found)
    bound = {
        **{name: hashes[name] for name in ("audit_sha256", "context_plan_sha256")},
        "injected_text_sha256": SHA,
        "plan_sha256": SHA,
        "prompt_sha256": OTHER,
        "trial": "t",
    }
    assert hashes["binding_sha256"] == sha256_hex(BINDING_DOMAIN + canonical_bytes(bound))


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        ({"audit_sha256": OTHER, "binding_sha256": OTHER, "context_plan_sha256": OTHER}, set()),
        ({"resolved": False}, {"audit_sha256", "binding_sha256"}),
        ({"selected": ["m1"]}, {"audit_sha256", "binding_sha256", "context_plan_sha256"}),
    ],
    ids=["its hashes", "an outcome", "a choice"],
)
def test_an_audits_hashes_change_with_what_they_cover(changes, same):
    before, after = hashes_of(audit()), hashes_of(audit(**changes))
    assert {name for name in before if before[name] != after[name]} == same


def test_an_audit_is_read_from_its_own_bytes():
    assert parse_audit(audit().canonical(), where="a.json") == audit()
    with pytest.raises(DocumentError):
        parse_audit(audit().canonical() + b"\n", where="a.json")


def test_an_arm_without_memory_has_an_audit_without_evidence():
    none = NotApplicable(trial="t", condition_id="c", plan_sha256=SHA, injection_sha256=SHA)
    assert parse_audit(none.canonical(), where="a.json") == none


@pytest.mark.parametrize("data", [b'{"plan_version":2,"bundle_version":1}', b"[]", b"{}"])
def test_an_audit_of_another_version_is_refused_before_it_is_read(data):
    with pytest.raises(DocumentError) as refused:
        parse_audit(data, where="a.json")
    assert refused.value.reference == "memory-audit-version"


@pytest.mark.parametrize(
    "changes",
    [
        {"runtime_contract_failure": True},
        {"runtime_contract_failure_reason": "r"},
        {"status": "contract_failure"},
        {"runtime_contract_failure": True, "runtime_contract_failure_reason": "r"},
    ],
)
def test_an_audit_gives_a_reason_exactly_for_a_broken_contract(changes):
    with pytest.raises(ValidationError, match=r"exactly for a contract failure|for nothing else"):
        audit(**changes)


def test_a_broken_contract_is_told_with_its_step_and_rule():
    failure = ContractFailure.model_validate_json(json.dumps(FAILURE))
    assert told_failure(failure) == "ingest: crashed: r: d"
    assert contract_status(failure, "raw") == contract_status(failure, None) == "contract_failure"

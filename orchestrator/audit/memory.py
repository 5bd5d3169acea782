"""The verifier of memory audits: recomputes hashes, derives counts, and compares with what was injected.

Reads a bundle's audits beside its record. A contract that a memory system broke is a finding about its arm and
is told; an audit that does not follow from the record is a refusal.
"""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.core.canonical import sha256_hex
from orchestrator.core.errors import MemtrialError, Negative
from orchestrator.model.memory import Injection, Remembered
from orchestrator.model.memory_audit import (
    MemoryAudit,
    NotApplicable,
    counts_of,
    hashes_of,
    parse_audit,
    told_failure,
)
from orchestrator.model.trace import MemoryStatus, MemoryTrace


@dataclass(frozen=True, slots=True)
class AuditFacts:
    """What the record says of a trial, for comparison.

    `applies`: its arm has a memory system; `trace`: where its facts went, as recorded.
    """

    plan_sha256: str
    trial: str
    applies: bool
    remembered: Remembered
    injection: Injection
    trace: MemoryTrace | None


def verify_audit(data: bytes, facts: AuditFacts, *, where: str) -> MemoryStatus:
    """Verifies the bytes of one audit against the record.

    Returns:
        The status of the memory contract in this trial.

    Raises:
        DocumentError: an unsupported version, an unknown field, or bytes that are not canonical.
        Negative: hashes, counts or entries that do not follow from the record.
    """
    audit = parse_audit(data, where=where)
    _same(where, "trial", facts.trial, audit.trial)
    _same(where, "condition", facts.injection.condition_id, audit.condition_id)
    _same(where, "plan", facts.plan_sha256, audit.plan_sha256)
    _same(where, "injection", facts.injection.digest_sha256(), audit.injection_sha256)
    if isinstance(audit, NotApplicable):
        _same(where, "memory system", facts.applies, False)
        return audit.status
    _same(where, "memory system", facts.applies, True)
    _check_hashes(audit, where)
    _check_counts(audit, where)
    _check_failure(audit, facts, where)
    _check_entries(audit, where)
    _check_injected(audit, facts, where)
    if facts.trace is not None:
        _check_traced(audit, facts.trace, where)
    return audit.status


def _check_hashes(audit: MemoryAudit, where: str) -> None:
    for name, value in hashes_of(audit).items():
        _same(where, name, value, getattr(audit, name))


def _check_counts(audit: MemoryAudit, where: str) -> None:
    counts, precision, recall = counts_of(audit)
    for name, value in counts:
        _same(where, f"count {name}", value, getattr(audit.counts, name))
    _same(where, "citation_precision", precision, audit.citation_precision)
    _same(where, "citation_recall", recall, audit.citation_recall)


def _check_entries(audit: MemoryAudit, where: str) -> None:
    """Every candidate is selected or dropped once, ranks run from 1, used ones were injected."""
    ids = [candidate.memory_id for candidate in audit.candidates]
    told = [*audit.selected, *(drop.memory_id for drop in audit.dropped)]
    _same(where, "ranks", list(range(1, len(ids) + 1)), [c.rank for c in audit.candidates])
    if not audit.runtime_contract_failure:
        _same(where, "selected and dropped", sorted(ids), sorted(told))
    _same(where, "used outside the injection", [], sorted(set(audit.used) - set(audit.injected)))
    counts = audit.resolved and not audit.runtime_contract_failure
    helped, hurt = audit.memory_helped, audit.memory_hurt
    if (helped and not counts) or (hurt and counts) or (helped and hurt):
        raise _refuse(
            where, "memory_helped and memory_hurt that fit verdict and contract", "others"
        )


def _check_injected(audit: MemoryAudit, facts: AuditFacts, where: str) -> None:
    injection = facts.injection
    included = tuple(item.item_id for item in injection.included)
    dropped = tuple((item.item_id, item.reason) for item in injection.dropped)
    _same(where, "injected", included, audit.injected)
    _same(where, "selected", included, audit.selected)
    _same(where, "dropped", dropped, tuple((d.memory_id, d.reason) for d in audit.dropped))
    _same(where, "injected text", sha256_hex(injection.text.encode()), audit.injected_text_sha256)
    _same(where, "prompt", injection.prompt_sha256, audit.prompt_sha256)
    found = (audit.budget.unit, audit.budget.max_tokens, audit.budget.tokens)
    _same(where, "budget", (injection.unit, injection.max_tokens, injection.tokens), found)
    expected = [(i.item_id, sha256_hex(i.text.encode())) for i in facts.remembered.items]
    _same(where, "candidates", expected, [(c.memory_id, c.text_sha256) for c in audit.candidates])
    counted = {item.item_id: item.tokens for item in injection.included}
    counted |= {item.item_id: item.tokens for item in injection.dropped}
    for candidate in audit.candidates:
        tokens = counted.get(candidate.memory_id, 0)
        _same(where, f"tokens of {candidate.memory_id}", tokens, candidate.tokens)
    reason = next((item.reason for item in injection.dropped), None)
    _same(where, "truncation_reason", reason, audit.truncation_reason)
    context = facts.remembered.context
    _same(where, "degraded_mode", context.degraded if context else (), audit.degraded_mode)


def _check_traced(audit: MemoryAudit, trace: MemoryTrace, where: str) -> None:
    """What is said of the key's facts is what the recorded trace says."""
    delivered = [(fact.fact_id, fact.delivered) for fact in trace.facts]
    _same(where, "facts", delivered, [(fact.fact_id, fact.delivered) for fact in audit.facts])
    for candidate in audit.candidates:
        told = tuple(f.fact_id for f in trace.facts if candidate.memory_id in f.ranked)
        _same(where, f"facts of {candidate.memory_id}", told, candidate.facts)
        stale = {
            s.stale_id for f in trace.facts for s in f.stale if candidate.memory_id in s.included
        }
        _same(
            where,
            f"stale facts of {candidate.memory_id}",
            sorted(stale),
            sorted(candidate.stale_facts),
        )
    _same(where, "cited", trace.cited, audit.cited)
    _same(where, "stale_followed", trace.stale_followed, audit.stale_followed)
    _same(where, "k", max(1, trace.k), audit.budget.k)


def _check_failure(audit: MemoryAudit, facts: AuditFacts, where: str) -> None:
    failure = facts.remembered.failure
    _same(where, "runtime_contract_failure", failure is not None, audit.runtime_contract_failure)
    told = told_failure(failure) if failure else None
    _same(where, "reason of the failure", told, audit.runtime_contract_failure_reason)


def _same(where: str, what: str, expected: object, found: object) -> None:
    if expected != found:
        raise _refuse(where, f"{what} {expected!r}", repr(found))


def _refuse(where: str, expected: str, found: str) -> MemtrialError:
    return Negative(
        "memory-audit-differs",
        f"{where}: expected {expected[:300]}, found {found[:300]}",
        hint="the audit does not follow from the record: do not rely on what it says of memory",
    )

"""Makes the audit of one trial's memory from its record. Pure: documents in, one document out.

What memory put before the agent and what the task came to stand side by side and are never merged.
"""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.core.canonical import sha256_hex
from orchestrator.model.memory import Injection, Remembered
from orchestrator.model.memory_audit import (
    AnyAudit,
    AuditBudget,
    AuditCandidate,
    AuditCounts,
    AuditDrop,
    AuditFact,
    MemoryAudit,
    NotApplicable,
    counts_of,
    hashes_of,
    told_failure,
)
from orchestrator.model.report import Count
from orchestrator.model.trace import MemoryTrace
from orchestrator.model.verdict import Verdict

NOTHING = Count(passed=0, of=0)
UNMADE = "0" * 64
_NO_COUNTS = AuditCounts(
    candidates=0,
    selected=0,
    dropped=0,
    injected=0,
    cited=0,
    used=0,
    stale_used=0,
    irrelevant_injected=0,
    missing_relevant=0,
)


@dataclass(frozen=True, slots=True)
class Audited:
    """What an audit is made from. `control`: whether the same cell without memory was resolved."""

    plan_sha256: str
    trial: str
    remembered: Remembered
    injection: Injection
    trace: MemoryTrace
    verdict: Verdict
    control: bool | None


def audit_of(given: Audited) -> AnyAudit:
    """Returns the audit of a graded trial."""
    injection = given.injection
    if not given.trace.applies:
        return NotApplicable(
            trial=given.trial,
            condition_id=injection.condition_id,
            plan_sha256=given.plan_sha256,
            injection_sha256=injection.digest_sha256(),
        )
    return closed(_draft(given))


def _draft(given: Audited) -> MemoryAudit:
    """Returns an audit whose counts and hashes are still to be made."""
    injection, failure = given.injection, given.remembered.failure
    candidates = _candidates(given)
    injected = tuple(item.item_id for item in injection.included)
    cited = given.trace.cited
    helped, hurt = _effect(given.verdict.resolved and failure is None, given.control)
    passes = _passes(given.verdict)
    return MemoryAudit(
        status="contract_failure" if failure else "verified",
        trial=given.trial,
        condition_id=injection.condition_id,
        plan_sha256=given.plan_sha256,
        injection_sha256=injection.digest_sha256(),
        candidates=candidates,
        selected=injected,
        dropped=tuple(
            AuditDrop(memory_id=item.item_id, reason=item.reason) for item in injection.dropped
        ),
        budget=AuditBudget(
            unit=injection.unit,
            k=max(1, given.trace.k),
            max_tokens=injection.max_tokens,
            tokens=injection.tokens,
        ),
        facts=tuple(
            AuditFact(fact_id=fact.fact_id, delivered=fact.delivered) for fact in given.trace.facts
        ),
        stale_followed=given.trace.stale_followed,
        injected=injected,
        cited=cited,
        used=used_of(candidates, injected, cited, given.trace.stale_followed, passes=passes),
        counts=_NO_COUNTS,
        citation_precision=NOTHING,
        citation_recall=NOTHING,
        resolved=given.verdict.resolved,
        memory_helped=helped,
        memory_hurt=hurt,
        truncation_reason=next((item.reason for item in injection.dropped), None),
        degraded_mode=given.remembered.context.degraded if given.remembered.context else (),
        runtime_contract_failure=failure is not None,
        runtime_contract_failure_reason=told_failure(failure) if failure else None,
        injected_text_sha256=injection.text_sha256,
        prompt_sha256=injection.prompt_sha256,
        context_plan_sha256=UNMADE,
        audit_sha256=UNMADE,
        binding_sha256=UNMADE,
    )


def closed(draft: MemoryAudit) -> MemoryAudit:
    """Returns an audit with the counts and hashes that follow from its entries."""
    counts, precision, recall = counts_of(draft)
    counted = draft.model_copy(
        update={"counts": counts, "citation_precision": precision, "citation_recall": recall}
    )
    return counted.model_copy(update=hashes_of(counted))


def used_of(
    candidates: tuple[AuditCandidate, ...],
    injected: tuple[str, ...],
    cited: tuple[str, ...],
    stale_followed: tuple[str, ...],
    *,
    passes: bool,
) -> tuple[str, ...]:
    """Returns the injected memories that were used, in the order of the injection.

    Args:
        candidates: with the facts that they hold.
        injected: ids.
        cited: ids that the agent wrote.
        stale_followed: superseded facts that the change holds.
        passes: whether every test that needs a fact passes.
    """
    known = {candidate.memory_id: candidate for candidate in candidates}
    return tuple(
        memory_id
        for memory_id in injected
        if memory_id in cited
        or (passes and known[memory_id].facts)
        or set(known[memory_id].stale_facts) & set(stale_followed)
    )


def _passes(verdict: Verdict) -> bool:
    return verdict.fail_to_pass_memory.passed == verdict.fail_to_pass_memory.expected


def _candidates(given: Audited) -> tuple[AuditCandidate, ...]:
    tokens = {item.item_id: item.tokens for item in given.injection.included}
    tokens |= {item.item_id: item.tokens for item in given.injection.dropped}
    facts = given.trace.facts
    return tuple(
        AuditCandidate(
            memory_id=item.item_id,
            rank=rank,
            tokens=tokens.get(item.item_id, 0),
            text_sha256=sha256_hex(item.text.encode()),
            facts=tuple(fact.fact_id for fact in facts if item.item_id in fact.ranked),
            stale_facts=tuple(
                sorted(
                    {
                        stale.stale_id
                        for fact in facts
                        for stale in fact.stale
                        if item.item_id in stale.included
                    }
                )
            ),
        )
        for rank, item in enumerate(given.remembered.items, 1)
    )


def _effect(resolved: bool, control: bool | None) -> tuple[bool | None, bool | None]:
    if control is None:
        return None, None
    return resolved and not control, control and not resolved

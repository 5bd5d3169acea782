"""What every answer of a memory system must hold, whatever system it is. Pure; raises what is broken.

Each function looks at one step's answer and at what went before it. A figure that the harness can count
itself is never believed.
"""

from __future__ import annotations

from collections.abc import Iterable

from orchestrator.core.canonical import sha256_hex
from orchestrator.core.clock import utc_seconds
from orchestrator.memory.compile import framed, render, render_item
from orchestrator.memory.faults import broken
from orchestrator.memory.tokens import TokenCounter
from orchestrator.model.condition import Condition, MemoryBudget
from orchestrator.model.lifecycle import (
    CaptureReport,
    CompiledContext,
    Description,
    ExtractionReport,
    Observed,
    Query,
    Ranked,
    ReviewUse,
    Session,
    Snapshot,
    StoreDump,
)
from orchestrator.model.review import ReviewLog


def check_description(description: Description, condition: Condition, *, gold: bool) -> None:
    """The system is the one that the arm names, and says truly what it learns from.

    What says that it is no memory system is not measured as one, so only built-in systems may: a file that
    people keep or text as such, which need a budget, and one that learns from nothing.
    """
    if description.adapter != condition.adapter:
        raise broken(
            "own-name", f"expected adapter {condition.adapter}, found {description.adapter}"
        )
    allowed = ["raw"]
    if condition.adapter_kind == "builtin":
        allowed += ["curated", "none"] if condition.budget else ["none"]
    if gold:
        allowed = ["gold"]
    if description.information not in allowed:
        raise broken(
            "information-as-declared",
            f"expected information {' or '.join(allowed)}, found {description.information}",
        )


def check_capture(session: Session, report: CaptureReport) -> None:
    """Every event of the session is accounted for exactly once, in its order; no other is."""
    expected = [event.event_id for event in session.events]
    found = [event.event_id for event in report.events]
    if report.session_id != session.session_id:
        raise broken(
            "own-session", f"expected session {session.session_id}, found {report.session_id}"
        )
    if found == expected:
        return
    missing, unknown = (
        _first(set(expected) - set(found)),
        _first(set(found) - set(expected)),
    )
    if unknown:
        raise broken(
            "event-known", f"expected events of session {session.session_id}, found {unknown}"
        )
    if missing:
        raise broken(
            "event-accounted-for",
            f"expected event {missing} captured or dropped with a reason, found neither",
        )
    raise broken(
        "event-order", f"expected the events of {session.session_id} once, in order, found another"
    )


def check_extraction(
    report: ExtractionReport, events: frozenset[str], review: ReviewLog | None
) -> None:
    """Candidates cite events that there are; the answers of people that were given were carried out, and no others."""
    given = review.used() if review else None
    if report.review != given:
        raise broken(
            "review-as-given",
            f"expected {_reviewed(given)} to be carried out, found {_reviewed(report.review)}",
        )
    if review is not None:
        _check_answers(report, review)
    for candidate in report.candidates:
        unknown = _first(set(candidate.evidence_event_ids) - events)
        if unknown:
            raise broken(
                "evidence-known",
                f"candidate {candidate.candidate_id}: expected ingested events as evidence, found {unknown}",
            )


def _check_answers(report: ExtractionReport, review: ReviewLog) -> None:
    """Every answered candidate is decided as the person said, and as many are held as wait for an answer."""
    decided = {candidate.candidate_id: candidate.decision for candidate in report.candidates}
    for entry in review.entries:
        found = decided.get(entry.candidate_id)
        if found != entry.action:
            raise broken(
                "review-as-given",
                f"candidate {entry.candidate_id}: expected {entry.action} as a person said, found {found or 'none'}",
            )
    held = sum(decision == "hold" for decision in decided.values())
    if held != review.open:
        raise broken(
            "review-as-given",
            f"expected {review.open} candidates without an answer held, found {held}",
        )


def _reviewed(use: ReviewUse | None) -> str:
    return f"review log {use.log_sha256[:16]} ({use.resolved} answers)" if use else "no review"


def check_snapshot(
    snapshot: Snapshot,
    description: Description,
    dump: StoreDump,
    extraction: ExtractionReport,
    events: frozenset[str],
) -> None:
    """The snapshot is that of the dump; memories cite events that there are; what was promoted is stored.

    What learns from nothing has stored nothing.
    """
    if dump.memories and not description.stores:
        raise broken(
            "information-as-declared",
            f"freeze: expected no memory of a system with information none, found {len(dump.memories)}",
        )
    if snapshot.dump_sha256 != dump.digest_sha256():
        raise broken(
            "true-hash",
            f"freeze: expected the digest of the dump {dump.digest_sha256()[:16]}, found {snapshot.dump_sha256[:16]}",
        )
    if snapshot.memories != len(dump.memories):
        raise broken(
            "true-count",
            f"freeze: expected {len(dump.memories)} memories as dumped, found {snapshot.memories}",
        )
    stored = {memory.memory_id for memory in dump.memories}
    for memory in dump.memories:
        unknown = _first(set(memory.evidence_event_ids) - events)
        if unknown:
            raise broken(
                "evidence-known",
                f"memory {memory.memory_id}: expected ingested events as evidence, found {unknown}",
            )
    for candidate in extraction.candidates:
        if candidate.memory_id is not None and candidate.memory_id not in stored:
            raise broken(
                "promoted-is-stored",
                f"candidate {candidate.candidate_id}: expected memory {candidate.memory_id} in the store, found none",
            )


def check_past(past: StoreDump, as_of: str) -> None:
    """A dump as of a time holds what was recorded by then, and nothing of which that is not known.

    Args:
        past: the dump.
        as_of: the time that was asked for (RFC 3339, UTC).
    """
    by = utc_seconds(as_of)
    for memory in past.memories:
        at = memory.recorded_at
        if at is None or utc_seconds(at) > by:
            raise broken(
                "past-as-it-was",
                f"dump as of {as_of}, memory {memory.memory_id}: expected recorded_at not after it, found {at or 'none'}",
            )


def check_ranked(
    ranked: Ranked,
    query: Query,
    description: Description,
    dump: StoreDump,
    events: frozenset[str],
) -> None:
    """Items answer this query, are at most k, of its scope, cite ingested events, and are as the frozen store holds them."""
    if ranked.query_sha256 != query.digest_sha256():
        raise broken("own-query", "expected the digest of the query that was asked, found another")
    if len(ranked.items) > query.k:
        raise broken("at-most-k", f"expected at most {query.k} items, found {len(ranked.items)}")
    for item in ranked.items:
        unknown = _first(set(item.source_event_ids) - events)
        if unknown:
            raise broken(
                "evidence-known",
                f"memory {item.memory_id}: expected ingested events as sources, found {unknown}",
            )
    if Observed.STORE in description.shows:
        _check_stored(ranked, query, dump)


def _check_stored(ranked: Ranked, query: Query, dump: StoreDump) -> None:
    stored = {memory.memory_id: memory for memory in dump.memories}
    for item in ranked.items:
        memory = stored.get(item.memory_id)
        if memory is None:
            raise broken(
                "memory-known",
                f"expected memories of the frozen store, found {item.memory_id}",
            )
        if memory.scope != query.scope:
            raise broken(
                "own-scope",
                f"memory {item.memory_id}: expected scope {query.scope}, found {memory.scope}",
            )
        if memory.text != item.text:
            raise broken(
                "text-as-stored",
                f"memory {item.memory_id}: expected the text that the store holds, found another",
            )
        stray = _first(set(item.source_event_ids) - set(memory.evidence_event_ids))
        if stray:
            raise broken(
                "sources-as-stored",
                f"memory {item.memory_id}: expected sources among the evidence that the store holds, found {stray}",
            )


def check_context(
    context: CompiledContext, ranked: Ranked, budget: MemoryBudget, counter: TokenCounter
) -> None:
    """The context is within the budget, in the shared template, and accounts for every ranked item once."""
    items = {item.memory_id: item for item in ranked.items}
    included = [item.item_id for item in context.included]
    told = [*included, *(item.item_id for item in context.dropped)]
    unknown = _first(set(told) - set(items))
    if unknown:
        raise broken("memory-known", f"compile: expected ranked memories, found {unknown}")
    if sorted(told) != sorted(items):
        raise broken(
            "item-accounted-for",
            "compile: expected every ranked item included or dropped exactly once, found another account",
        )
    sizes = [(item.item_id, item.tokens) for item in context.included]
    sizes += [(item.item_id, item.tokens) for item in context.dropped]
    for name, size in sizes:
        tokens = counter.count(render_item(items[name]))
        if size != tokens:
            raise broken(
                "true-count", f"compile: expected {tokens} tokens for {name}, found {size}"
            )
    if context.text != render(items[name] for name in included):
        raise broken(
            "shared-template",
            "compile: expected the included items in the shared template, found another text",
        )
    if context.text_sha256 != sha256_hex(context.text.encode()):
        raise broken("true-hash", "compile: expected the digest of its text, found another")
    tokens = counter.count(framed(context.text))
    if context.tokens != tokens:
        raise broken("true-count", f"compile: expected {tokens} tokens, found {context.tokens}")
    if tokens > budget.max_tokens:
        raise broken(
            "within-budget",
            f"compile: expected at most {budget.max_tokens} tokens, found {tokens}",
        )


def _first(names: Iterable[str]) -> str | None:
    return min(names, default=None)

"""Walks a person through what a memory system held back, with the time of each answer, resumable at any point.

Shows candidates and nothing of the task: no prompt, no key. Writes through its caller after every answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from orchestrator.core.canonical import sha256_hex
from orchestrator.core.clock import monotonic_ms, utc_now_text
from orchestrator.core.errors import IntegrityError, UsageError
from orchestrator.model.lifecycle import StoredMemory
from orchestrator.model.review import ReviewEntry, ReviewLog
from orchestrator.pipeline.byhand import Lived
from orchestrator.pipeline.reviews import require_reviewed

Answer = Literal["promote", "reject", "skip", "stop"]


def begin(found: Lived, reviewer: str, earlier: ReviewLog | None) -> ReviewLog:
    """Returns the log to go on with: the earlier one, or an empty one.

    Raises:
        IntegrityError: the earlier log is about another store.
        UsageError: it holds the answers of another person, or the arm's system carries no answers out.
    """
    require_reviewed(found.condition)
    dump = found.dump()
    dump_sha256 = dump.digest_sha256()
    if earlier is not None:
        if earlier.dump_sha256 != dump_sha256:
            raise IntegrityError(
                "review-of-another-store",
                f"review log: expected one of store {dump_sha256[:16]}, found {earlier.dump_sha256[:16]}",
                hint="begin another log with --log FILE",
            )
        if earlier.reviewer != reviewer:
            raise UsageError(
                "review-of-another-person",
                f"review log: expected the answers of {reviewer}, found those of {earlier.reviewer}",
                hint=f"go on as --reviewer {earlier.reviewer}, or begin another log with --log FILE",
            )
        return earlier
    return ReviewLog(
        condition_id=found.condition.id,
        adapter=found.condition.adapter,
        variant=found.condition.variant,
        sessions_sha256=found.sessions_sha256,
        dump_sha256=dump_sha256,
        reviewer_kind="human",
        reviewer=reviewer,
        held=len(held(found)),
        entries=(),
        seconds_total=0,
    )


def held(found: Lived) -> tuple[StoredMemory, ...]:
    """Returns what waits for a person, in the order of the store."""
    return tuple(memory for memory in found.dump().memories if memory.status == "held")


def walk(
    found: Lived,
    log: ReviewLog,
    ask: Callable[[StoredMemory], Answer],
    save: Callable[[ReviewLog], None],
    now_ms: Callable[[], int] = monotonic_ms,
) -> ReviewLog:
    """Asks about every candidate that is open; returns the log at the end.

    Args:
        found: the life whose store is reviewed.
        log: what was resolved before.
        ask: shows a candidate and returns the answer; its time is what counts.
        save: is called with the log after each answer; also the time before one that resolves nothing counts.
        now_ms: milliseconds of a clock that never goes back.
    """
    resolved = {entry.candidate_id for entry in log.entries}
    for memory in held(found):
        if memory.memory_id in resolved:
            continue
        began = now_ms()
        answer = ask(memory)
        # Begun seconds count: an answer takes time, however quick.
        seconds = max(1, -(-(now_ms() - began) // 1000))
        if answer == "stop":
            log = _waited(log, seconds)
            save(log)
            break
        if answer == "skip":
            log = _waited(log, seconds)
            save(log)
            continue
        entry = ReviewEntry(
            candidate_id=memory.memory_id,
            text_sha256=sha256_hex(memory.text.encode()),
            evidence_event_ids=memory.evidence_event_ids,
            action=answer,
            seconds_spent=seconds,
            decided_at=utc_now_text(),
        )
        log = log.model_copy(
            update={
                "entries": (*log.entries, entry),
                "seconds_total": log.seconds_total + seconds,
            }
        )
        save(log)
    return log


def _waited(log: ReviewLog, seconds: int) -> ReviewLog:
    """Returns a log with the time before a candidate that got no answer."""
    return log.model_copy(
        update={
            "seconds_unanswered": log.seconds_unanswered + seconds,
            "seconds_total": log.seconds_total + seconds,
        }
    )

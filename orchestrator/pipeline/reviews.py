"""Reads the logs by which people resolved what an arm held back, pins them in a plan, and tries them before a run.

A log lies in the folder that the arm names, beside the registry that names the arm: `REVIEWS/TASK.json`. What is
read here reaches the memory system only when it settles, after it was told all sessions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from orchestrator.core.canonical import sha256_hex
from orchestrator.core.errors import DocumentError, IntegrityError, Negative, UsageError
from orchestrator.core.files import read_confined
from orchestrator.core.places import added_conditions_path, fixtures_root
from orchestrator.core.words import counted
from orchestrator.memory import shelf
from orchestrator.memory.life import live, sessions_sha256
from orchestrator.memory.sessions import sessions_of
from orchestrator.memory.tokens import TokenCounter
from orchestrator.model.condition import Condition
from orchestrator.model.plan import Plan
from orchestrator.model.review import MAX_LOG_BYTES, ReviewLog, ReviewPin
from orchestrator.model.task import History
from orchestrator.pipeline.memory import adapter_of, memory_assignment
from orchestrator.pipeline.parity import query_of
from orchestrator.sources.loader import LoadedTask, load_task

Say = Callable[[str], None]


def review_of(condition: Condition, task_id: str, history: History) -> ReviewLog | None:
    """Returns the log of an arm and a task; None for an arm that has no reviews.

    Raises:
        UsageError: its memory system carries no answers out.
        DocumentError: there is none, or it is of another system or of other sessions.
    """
    if condition.reviews is None:
        return None
    require_reviewed(condition)
    folder = _folder(condition)
    where = f"{condition.reviews}/{task_id}.json"
    if not (folder / f"{task_id}.json").is_file():
        raise DocumentError(
            "review-missing",
            f"condition {condition.id}: expected the review log {where}, found none",
            hint=_again(condition, task_id, folder),
        )
    data = read_confined(folder, f"{task_id}.json", max_bytes=MAX_LOG_BYTES)
    log = ReviewLog.parse(data, where=where, max_bytes=MAX_LOG_BYTES)
    told = sessions_sha256(sessions_of(history))
    expected = (condition.adapter, condition.variant, told)
    if (log.adapter, log.variant, log.sessions_sha256) != expected:
        raise DocumentError(
            "review-of-another-store",
            f"{where}: expected a review of {condition.adapter} over sessions {told[:16]}, "
            f"found one of {log.adapter} over {log.sessions_sha256[:16]}",
            hint=_again(condition, task_id, folder),
        )
    return log


def require_reviewed(condition: Condition) -> None:
    """Refuses an arm whose memory system carries no answers of people out.

    Raises:
        UsageError: it does not.
    """
    builtin = condition.adapter_kind == "builtin"
    if not builtin or not shelf.shelved(condition.adapter).reviewed:
        raise UsageError(
            "adapter-takes-no-reviews",
            f"condition {condition.id}: expected an adapter that carries reviews out, found {condition.adapter}",
            hint="review an arm of the reference pipeline, and leave `reviews` out of others",
        )


def review_pins(
    conditions: Iterable[Condition], histories: Iterable[tuple[str, History]]
) -> tuple[ReviewPin, ...]:
    """Returns the pins of all logs that arms name, arm by arm in the order of the tasks.

    Raises:
        MemtrialError: a log is missing, malformed or of something else.
    """
    tasks = list(histories)
    return tuple(
        log.pin(condition.id, task_id)
        for condition in conditions
        for task_id, history in tasks
        if (log := review_of(condition, task_id, history)) is not None
    )


def pinned_reviews(plan: Plan) -> dict[tuple[str, str], ReviewLog]:
    """Returns the logs that a plan pins, by condition and task.

    Raises:
        IntegrityError: one has other bytes now.
    """
    found = {}
    for pin in plan.reviews:
        task = load_task(fixtures_root(), pin.task_id)
        log = review_of(plan.condition(pin.condition_id), pin.task_id, task.history)
        if log is None or log.digest_sha256() != pin.log_sha256:
            raise IntegrityError(
                "review-changed",
                f"review log of {pin.condition_id} over {pin.task_id}: expected the bytes of the plan, found others",
                hint="restore the log, or make a new plan",
            )
        found[pin.condition_id, pin.task_id] = log
    return found


def try_reviews(plan: Plan, say: Say) -> None:
    """Lets every reviewed arm settle once over each task, before a trial is paid for.

    Raises:
        Negative: a log does not fit the store that the arm makes now.
    """
    logs = pinned_reviews(plan)
    if not logs:
        return
    say(f"trying {counted(len(logs), 'review log')} on the store that each is of")
    counter = TokenCounter()
    for (condition_id, task_id), log in logs.items():
        condition = plan.condition(condition_id)
        _try(condition, load_task(fixtures_root(), task_id), log, counter)


def _try(condition: Condition, task: LoadedTask, log: ReviewLog, counter: TokenCounter) -> None:
    query = query_of(task.brief, condition.retrieve_k)
    adapter = adapter_of(condition, None, counter, review=log)()
    with memory_assignment(condition, task.history, query, review=log) as assignment:
        found = live(adapter, assignment, counter, keep=lambda _, data: sha256_hex(data))
    if found.failure is not None:
        raise Negative(
            "review-does-not-fit",
            f"condition {condition.id}, task {task.card.id}: {found.failure.rule}: {found.failure.detail}",
            hint=_again(condition, task.card.id, _folder(condition)),
        )


def _folder(condition: Condition) -> Path:
    """Returns the folder of an arm's logs, beside the registry that names it."""
    added = added_conditions_path()
    if added is not None and (added.parent / (condition.reviews or "")).is_dir():
        return added.parent / (condition.reviews or "")
    return fixtures_root() / (condition.reviews or "")


def _again(condition: Condition, task_id: str, folder: Path) -> str:
    """Returns the command of another review; a log that does not fit any more is moved away first."""
    path = folder / f"{task_id}.json"
    away = f"mv {path} {path}.old; " if path.exists() else ""
    return f"{away}memtrial memory review --condition {condition.id} --task {task_id} --log {path} --reviewer NAME"

"""Rebuilds a plan from the inputs that a bundle holds, and says what of it can only be taken as given. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.core.canonical import sha256_hex
from orchestrator.core.errors import Negative
from orchestrator.ledger.blobs import BlobReader, BlobWithheld
from orchestrator.model.base import Document
from orchestrator.model.curation import parse_curator_log
from orchestrator.model.plan import CuratedPin, Plan, TaskPin, Trial
from orchestrator.model.source import parse_source
from orchestrator.model.task import Brief, History, Key, Rehearsal, TaskCard

TAKEN_AS_GIVEN = "image ids, hardening profile and source revision are the plan's own word"


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """How many inputs were read again, and which were withheld."""

    inputs: int
    withheld: tuple[str, ...]


def rebuild(plan: Plan, blobs: BlobReader) -> Rebuilt:
    """Rebuilds what inputs determine: task pins, curated pins, the matrix and its order.

    Raises:
        Negative: the plan says something else than its inputs.
        MemtrialError: an input is missing or malformed.
    """
    withheld: list[str] = []
    tasks = tuple(_task(pin, blobs, withheld) for pin in plan.tasks)
    curated = tuple(_curated(pin, blobs, withheld) for pin in plan.curated)
    for agent in plan.agents:
        _held(agent.program_sha256, blobs, withheld)
    again = plan.model_copy(update={"tasks": tasks, "curated": curated, "trials": _trials(plan)})
    if again.canonical() != plan.canonical():
        wrong = [n for n, value in again if value != getattr(plan, n)]
        raise Negative(
            "plan-differs",
            f"plan.json: expected what its inputs give, found other {', '.join(wrong)}",
            hint="the plan was not made from these inputs: do not rely on this run",
        )
    inputs = 6 * len(plan.tasks) + 2 * len(plan.curated) + len(plan.agents)
    return Rebuilt(inputs - len(withheld), tuple(withheld))


def _held(sha256: str, blobs: BlobReader, withheld: list[str]) -> bytes | None:
    try:
        return blobs.get(sha256)
    except BlobWithheld:
        withheld.append(sha256)
        return None


def _task(pin: TaskPin, blobs: BlobReader, withheld: list[str]) -> TaskPin:
    """Reads every view of a task; a blob's name is its digest, so only the contents can be at fault."""
    task_id = pin.digests.id
    update: dict[str, object] = {}
    source = _held(pin.digests.source_sha256, blobs, withheld)
    if source is not None:
        expect = parse_source(source, where=f"source of {task_id}").expect
        update |= {"tree": expect.tree, "commit": expect.commit}
    brief = _held(pin.digests.brief_sha256, blobs, withheld)
    if brief is not None:
        update["limits"] = Brief.parse_canonical(brief, where=f"brief of {task_id}").limits
    kinds: tuple[tuple[str, type[Document]], ...] = (
        (pin.digests.card_sha256, TaskCard),
        (pin.digests.history_sha256, History),
        (pin.digests.key_sha256, Key),
        (pin.digests.rehearsal_sha256, Rehearsal),
    )
    for sha256, kind in kinds:
        data = _held(sha256, blobs, withheld)
        if data is not None:
            document = kind.parse_canonical(data, where=f"{kind.__name__} of {task_id}")
            named = getattr(document, "id" if kind is TaskCard else "task_id")
            update |= {"digests": pin.digests.model_copy(update={"id": named})}
    return pin.model_copy(update=update)


def _curated(pin: CuratedPin, blobs: BlobReader, withheld: list[str]) -> CuratedPin:
    data = _held(pin.log_sha256, blobs, withheld)
    _held(pin.file_sha256, blobs, withheld)
    if data is None:
        return pin
    log = parse_curator_log(data, where=f"curator log of {pin.task_id}", canonical=True)
    return CuratedPin(
        task_id=log.task_id,
        file_sha256=log.final_file_sha256,
        log_sha256=pin.log_sha256,
        curator_kind=log.curator_kind,
    )


def _trials(plan: Plan) -> tuple[Trial, ...]:
    """Returns the matrix in the order that the plan's seed draws."""
    cells = [
        Trial(
            seq=0,
            task_id=task.digests.id,
            condition_id=condition.id,
            agent=agent.name,
            epoch=epoch,
        )
        for task in plan.tasks
        for condition in plan.conditions
        for agent in plan.agents
        for epoch in range(1, plan.epochs + 1)
    ]
    cells.sort(key=lambda cell: sha256_hex(f"{plan.order_seed}|{cell.key}".encode()))
    return tuple(cell.model_copy(update={"seq": seq}) for seq, cell in enumerate(cells))

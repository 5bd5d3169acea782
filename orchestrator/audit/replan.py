"""Rebuilds a plan from the inputs that a bundle holds, and says what of it can only be taken as given. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.core.canonical import sha256_hex
from orchestrator.core.errors import Negative
from orchestrator.ledger.blobs import BlobReader, BlobWithheld
from orchestrator.memory import shelf
from orchestrator.model.base import Document
from orchestrator.model.condition import Condition, ConditionRegistry
from orchestrator.model.curation import maintenance_s, parse_curator_log
from orchestrator.model.gateway import LivePin
from orchestrator.model.plan import CuratedPin, Plan, TaskPin, Trial
from orchestrator.model.review import ReviewLog, ReviewPin
from orchestrator.model.source import parse_source
from orchestrator.model.task import Brief, History, Key, Rehearsal, TaskCard
from orchestrator.model.validation import TaskValidation, task_sha256
from orchestrator.pipeline.parity import parity_of
from orchestrator.pipeline.retry import RETRY
from orchestrator.sandbox.harden import profile_sha256

_IMAGES = ("agent_image", "verifier_image", "agent_images")
"""Parts of a task's pin that no input in a bundle gives."""


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """How many inputs were read again, which were withheld, and which fields nothing in the bundle gives."""

    inputs: int
    withheld: tuple[str, ...]
    own_word: tuple[str, ...]
    registry_sha256: str

    def told(self) -> str:
        """Returns what of the plan is its own word; the registry that gives its arms is known by digest alone."""
        registry = f"arms by a registry with SHA-256 {self.registry_sha256}"
        return f"{registry}; the plan's own word: {', '.join(self.own_word)}"


def rebuild(plan: Plan, blobs: BlobReader, *, registry_sha256: str, same_program: bool) -> Rebuilt:
    """Rebuilds what inputs determine, and says of every other field that it is the plan's own word.

    Args:
        plan: the plan.
        blobs: of the bundle.
        registry_sha256: of the registry of conditions, as the bundle's card names it.
        same_program: whether the program that began the run is this one, so that its constants are the same.

    Raises:
        Negative: the plan says something else than its inputs.
        MemtrialError: an input is missing or malformed.
    """
    withheld: list[str] = []
    for agent in plan.agents:
        _held(agent.program_sha256, blobs, withheld)
    made: dict[str, object] = {
        "suite": plan.suite,
        "diagnostic": not isinstance(plan.gateway, LivePin),
        "tasks": tuple(_task(pin, blobs, withheld) for pin in plan.tasks),
        "curated": tuple(_curated(pin, blobs, withheld) for pin in plan.curated),
        "reviews": tuple(_review(pin, blobs, withheld) for pin in plan.reviews),
        "trials": _trials(plan),
        "arms": tuple(
            plan.setting(t.digests.id, c.id) for t in plan.tasks for c in plan.conditions
        ),
    }
    if plan.gateway is None:
        made["gateway"] = None
    conditions = _conditions(plan, registry_sha256, blobs, withheld)
    if conditions is not None:
        made["conditions"] = conditions
    constants = {**_constants(plan), **_parity(plan, blobs)}
    for name, value in constants.items():
        if same_program or value == getattr(plan, name):
            made[name] = value
    again = plan.model_copy(update=made)
    if again.canonical() != plan.canonical():
        wrong = [n for n, value in again if value != getattr(plan, n)]
        raise _differs(", ".join(wrong))
    named = [name for name in type(plan).model_fields if name not in {*made, "schema_version"}]
    named += [f"tasks.{name}" for name in _IMAGES]
    named += _check_adapters(plan, same_program=same_program)
    inputs = 6 * len(plan.tasks) + 2 * len(plan.curated) + len(plan.reviews)
    inputs += len(plan.agents) + 1
    return Rebuilt(inputs - len(withheld), tuple(withheld), tuple(named), registry_sha256)


def _differs(what: str) -> Negative:
    return Negative(
        "plan-differs",
        f"plan.json: expected what its inputs give, found other {what}",
        hint="the plan was not made from these inputs: do not rely on this run",
    )


def _constants(plan: Plan) -> dict[str, object]:
    """Returns what this program puts into every plan."""
    return {"profile_sha256": profile_sha256(plan.runtime), "retry": RETRY}


def _parity(plan: Plan, blobs: BlobReader) -> dict[str, object]:
    """Returns what all arms are told and asked, from histories and prompts; nothing where one is withheld."""
    try:
        views = [
            (
                History.parse_canonical(blobs.get(pin.digests.history_sha256), where="history"),
                Brief.parse_canonical(blobs.get(pin.digests.brief_sha256), where="brief"),
            )
            for pin in plan.tasks
        ]
    except BlobWithheld:
        return {}
    return {"parity": parity_of(views, plan.conditions)}


def _conditions(
    plan: Plan, registry_sha256: str, blobs: BlobReader, withheld: list[str]
) -> tuple[Condition, ...] | None:
    """Returns the plan's arms as the registry has them, in its order."""
    data = _held(registry_sha256, blobs, withheld)
    if data is None:
        return None
    registry = ConditionRegistry.parse_canonical(data, where="registry of conditions")
    chosen = {condition.id for condition in plan.conditions}
    return tuple(condition for condition in registry.conditions if condition.id in chosen)


def _check_adapters(plan: Plan, *, same_program: bool) -> list[str]:
    """Compares the pins of built-in memory systems with their code here; returns those that stay a word."""
    own: list[str] = []
    for condition in plan.conditions:
        builtin = condition.adapter_kind == "builtin"
        here = shelf.adapter_sha256(condition.adapter) if builtin else None
        if here == condition.adapter_sha256:
            continue
        if builtin and same_program:
            raise _differs(f"code of {condition.adapter} in arm {condition.id}")
        own.append(f"conditions.{condition.id}.adapter_sha256")
    return own


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
    if pin.validation_sha256 is not None:
        _check_validation(pin, blobs, withheld)
    return pin.model_copy(update=update)


def _check_validation(pin: TaskPin, blobs: BlobReader, withheld: list[str]) -> None:
    """The pinned validation is of exactly these files, and every check in it holds."""
    data = _held(pin.validation_sha256 or "", blobs, withheld)
    if data is None:
        return
    entry = TaskValidation.parse_canonical(data, where=f"validation of {pin.digests.id}")
    bound = (entry.id, entry.task_sha256) == (pin.digests.id, task_sha256(pin.digests))
    if not bound or not entry.ok or not all(check.ok for check in entry.checks):
        raise _differs(f"validation of {pin.digests.id}")


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
        maintenance_s=maintenance_s(log),
    )


def _review(pin: ReviewPin, blobs: BlobReader, withheld: list[str]) -> ReviewPin:
    data = _held(pin.log_sha256, blobs, withheld)
    if data is None:
        return pin
    log = ReviewLog.parse_canonical(data, where=f"review log of {pin.condition_id}, {pin.task_id}")
    return log.pin(pin.condition_id, pin.task_id)


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

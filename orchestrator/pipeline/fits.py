"""Holds a plan against what its own request gives here and now, field by field, before anything is written.

A plan is a file that anybody can edit. Whatever the fixtures, the images' recipes and this program
determine must be in it exactly; the one thing that may differ is the revision, and in phase local only.
"""

from __future__ import annotations

from collections.abc import Callable

from orchestrator.core.errors import DocumentError, IntegrityError, MemtrialError, UsageError
from orchestrator.core.printable import printable
from orchestrator.model.gateway import LivePin
from orchestrator.model.plan import Plan
from orchestrator.pipeline.liveplan import even_caps
from orchestrator.pipeline.options import CapLevel, LiveRequest, PlanRequest
from orchestrator.pipeline.traffic import SCRIPTED_CAPS, caps_of

NEW_PLAN = "restore what changed, or make a new plan with `memtrial plan`"
_REVISION = frozenset({"source_revision", "source_dirty"})
_NOTHING = "nothing"


def request_of(plan: Plan) -> PlanRequest:
    """Returns the request that gives this plan."""
    # A scripted model follows from its agent and is never asked for.
    asked = [agent for agent in plan.agents if agent.kind != "scripted_model"]
    models = {(agent.model, agent.reasoning_effort) for agent in asked}
    model, effort = next(iter(models)) if len(models) == 1 else (None, None)
    return PlanRequest(
        agents=tuple(agent.name for agent in plan.agents if agent.command is None),
        suite=plan.suite,
        phase=plan.phase,
        namespace=plan.namespace,
        task_set=plan.task_set,
        matrix=plan.matrix,
        conditions=tuple(condition.id for condition in plan.conditions),
        tasks=tuple(task.digests.id for task in plan.tasks),
        epochs=plan.epochs,
        order_seed=plan.order_seed,
        model=model,
        reasoning_effort=effort,
        runtime=plan.runtime,
        caps=_caps_of(plan),
        live=_live_of(plan),
        commands=tuple(agent.command for agent in plan.agents if agent.command is not None),
    )


def _caps_of(plan: Plan) -> tuple[tuple[CapLevel, int], ...]:
    """Returns the caps that a plan was asked for, beside the most that a live run may spend."""
    pin = plan.gateway
    if pin is None:
        return ()
    if not isinstance(pin, LivePin):
        return caps_of(pin, SCRIPTED_CAPS)
    given = even_caps(
        pin.caps.per_run_usd_micros,
        conditions=len(plan.conditions),
        trials_each=len(plan.tasks) * plan.epochs * len(plan.agents),
    )
    return caps_of(pin, given)


def _live_of(plan: Plan) -> LiveRequest | None:
    pin = plan.gateway
    if not isinstance(pin, LivePin):
        return None
    return LiveRequest(
        provider=pin.upstream.provider,
        origin=pin.upstream.origin,
        prices=pin.prices,
        max_usd_micros=pin.caps.per_run_usd_micros,
    )


def check_fits(
    plan: Plan, rebuild: Callable[[PlanRequest], Plan], say: Callable[[str], None]
) -> None:
    """Refuses a plan that differs from what its request gives here.

    Args:
        plan: as read from its file.
        rebuild: makes a plan from a request, without an engine.
        say: where a differing revision is told in phase local.

    Raises:
        IntegrityError: a file that the plan pins has other bytes here.
        DocumentError: any other difference; the first one is named with both values.
    """
    try:
        expected = rebuild(request_of(plan))
    except UsageError as error:
        raise DocumentError(
            "plan-does-not-fit",
            f"expected a plan that can be made here, found one that cannot: {error.message}",
            hint=NEW_PLAN,
        ) from error
    here, there = expected.model_dump(mode="json"), plan.model_dump(mode="json")
    for name in here:
        found = None if name in _REVISION else _difference(name, here[name], there[name])
        if found is not None:
            raise _refusal(*found)
    _check_revision(plan, expected, say)


def _check_revision(plan: Plan, expected: Plan, say: Callable[[str], None]) -> None:
    mine, theirs = _revision(expected), _revision(plan)
    if mine == theirs:
        return
    if plan.phase != "local":
        raise DocumentError(
            "plan-of-another-memtrial",
            f"source_revision: expected {mine}, found {theirs}",
            hint="run the plan with the memtrial that made it, or make a new plan",
        )
    say(f"warning: the plan was made by memtrial {theirs}, this is {mine}")


def _revision(plan: Plan) -> str:
    return plan.source_revision + (" (changed)" if plan.source_dirty else "")


def _refusal(path: str, expected: object, found: object) -> MemtrialError:
    # Digests are of files, that of the profile apart: where one differs, bytes changed since the plan was made.
    of_bytes = path.endswith("_sha256") and path != "profile_sha256"
    kind = IntegrityError if of_bytes else DocumentError
    shown = [printable(str(value), limit=200) for value in (expected, found)]
    return kind(
        "plan-does-not-fit",
        f"plan, {path}: expected {shown[0]} as the inputs give it, found {shown[1]}",
        hint=NEW_PLAN,
    )


def _difference(path: str, mine: object, theirs: object) -> tuple[str, object, object] | None:
    """Returns the first place in which two JSON values differ, with both values."""
    if isinstance(mine, dict) and isinstance(theirs, dict):
        names = [str(name) for name in (*mine, *(name for name in theirs if name not in mine))]
        pairs = [(n, mine.get(n, _NOTHING), theirs.get(n, _NOTHING)) for n in names]
    elif isinstance(mine, list) and isinstance(theirs, list):
        length = max(len(mine), len(theirs))
        pairs = [(str(i), _at(mine, i), _at(theirs, i)) for i in range(length)]
    else:
        # True equals 1 in Python, not in a document.
        same = mine == theirs and type(mine) is type(theirs)
        return None if same else (path, mine, theirs)
    found = (_difference(f"{path}.{name}", one, other) for name, one, other in pairs)
    return next((item for item in found if item is not None), None)


def _at(items: list[object], index: int) -> object:
    return items[index] if index < len(items) else _NOTHING

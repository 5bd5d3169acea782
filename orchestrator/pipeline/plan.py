"""Builds a plan: the same request over the same inputs gives the same bytes, anywhere.

Reads fixtures and pins; takes image ids from the caller, which knows how images come to be. The order
of the trials is drawn from the plan's own seed, so it is part of the digest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.agents.channels import channels_of
from orchestrator.agents.registry import AGENTS, driver_for, is_packaged, speech_of, speeches_of
from orchestrator.core.canonical import sha256_hex
from orchestrator.core.errors import DocumentError, UsageError, unknown_name
from orchestrator.model.agents import CommandAgent
from orchestrator.model.condition import Condition, ConditionRegistry
from orchestrator.model.gateway import AnyGatewayPin
from orchestrator.model.plan import (
    AgentImage,
    AgentPin,
    CuratedPin,
    ImagePin,
    Plan,
    TaskPin,
    Trial,
    setting_of,
)
from orchestrator.model.review import ReviewPin
from orchestrator.model.symmetry import ArmSetting, inequality, unequal_budgets
from orchestrator.pipeline.curatedfiles import curated_pins
from orchestrator.pipeline.liveplan import check_live, check_speeches, live_pin
from orchestrator.pipeline.memory import check_pins
from orchestrator.pipeline.options import PlanRequest
from orchestrator.pipeline.parity import parity_of
from orchestrator.pipeline.retry import RETRY
from orchestrator.pipeline.reviews import review_pins
from orchestrator.pipeline.toolchain import toolchain
from orchestrator.pipeline.traffic import gateway_pin, with_caps
from orchestrator.pipeline.validate.run import check_valid, read_report
from orchestrator.sandbox.agents import identity_of, recipe_bytes
from orchestrator.sandbox.harden import profile_sha256
from orchestrator.sources.loader import (
    LoadedTask,
    list_tasks,
    load_conditions,
    load_task,
)
from orchestrator.sources.revision import SourceState, source_state

SERVES_TOOLS = frozenset({"empty", "reference"})
"""Built-in adapters whose frozen store an agent can search itself."""

ImagePins = Callable[[LoadedTask], tuple[ImagePin, ImagePin]]
AgentPins = Callable[[LoadedTask, str], ImagePin]


def build_plan(
    request: PlanRequest,
    *,
    fixtures: Path,
    images: Path,
    image_pins: ImagePins,
    agent_pins: AgentPins | None = None,
    source: SourceState | None = None,
    chosen: Chosen | None = None,
) -> Plan:
    """Builds and validates the plan of a request.

    Args:
        fixtures, images: folders of tasks, sources and conditions, and of image recipes and programs.
        image_pins: gives (agent image, verifier image) of a task; `agent_pins` that of a packaged agent.
        source, chosen: which memtrial makes the plan, and what `choose` gave; by default both are looked up.

    Raises:
        MemtrialError: what `choose` refuses, or an image or source that cannot be had.
    """
    chosen = chosen or choose(request, fixtures=fixtures, images=images)
    tasks, conditions, agents = chosen.tasks, chosen.conditions, chosen.agents
    gateway = _gateway(request, chosen, fixtures)
    pins = _with_agents(_task_pins(request, fixtures, tasks, image_pins), tasks, agents, agent_pins)
    source = source or source_state()
    return Plan(
        suite=request.suite,
        phase=request.phase,
        namespace=request.namespace,
        task_set=request.task_set,
        matrix=request.matrix,
        epochs=request.epochs,
        order_seed=request.order_seed,
        diagnostic=request.live is None,
        source_revision=source.revision,
        source_dirty=source.dirty,
        agents=agents,
        conditions=conditions,
        curated=chosen.curated,
        reviews=chosen.reviews,
        tasks=pins,
        profile_sha256=profile_sha256(request.runtime),
        runtime=request.runtime,
        toolchain=toolchain(images),
        retry=RETRY,
        gateway=gateway,
        parity=parity_of([(t.history, t.brief) for t in tasks], conditions),
        arms=equal_arms(pins, conditions, agents, gateway, runtime=request.runtime),
        trials=_trials(request, tasks, conditions, agents),
    )


@dataclass(frozen=True, slots=True)
class Chosen:
    """What a request comes to; everything about it that can be checked without an engine holds."""

    tasks: tuple[LoadedTask, ...]
    conditions: tuple[Condition, ...]
    agents: tuple[AgentPin, ...]
    curated: tuple[CuratedPin, ...]
    reviews: tuple[ReviewPin, ...]


def _gateway(request: PlanRequest, chosen: Chosen, fixtures: Path) -> AnyGatewayPin | None:
    """Returns the gateway's part of the plan, if an agent asks a model."""
    if request.live is not None:
        live = live_pin(request, tasks=len(chosen.tasks), conditions=len(chosen.conditions))
        return with_caps(live, request.caps)
    pin = gateway_pin(fixtures, chosen.tasks, speeches_of(chosen.agents))
    if pin is not None:
        return with_caps(pin, request.caps)
    if request.caps:
        raise UsageError(
            "caps-without-a-model",
            "expected an agent that asks a model with --cap, found none",
            hint="add --agent chat, or leave --cap out",
        )
    return None


def choose(request: PlanRequest, *, fixtures: Path, images: Path) -> Chosen:
    """Finds what a request names, before any image is made.

    Raises:
        UsageError: an unknown task, condition or agent, or a phase that this plan cannot have.
        DocumentError: a fixture is invalid, or a task has no curated file that an arm needs.
    """
    agents = _agents(request, images)
    check_live(request)
    check_speeches(request, speeches_of(agents))
    conditions = _conditions(request, fixtures, [agent.name for agent in agents])
    tasks = _tasks(request, fixtures)
    return Chosen(
        tasks,
        conditions,
        agents,
        curated_pins(fixtures, tasks, conditions),
        review_pins(conditions, [(task.card.id, task.history) for task in tasks]),
    )


def equal_arms(
    tasks: tuple[TaskPin, ...],
    conditions: tuple[Condition, ...],
    agents: tuple[AgentPin, ...],
    gateway: AnyGatewayPin | None = None,
    *,
    runtime: str | None = None,
) -> tuple[ArmSetting, ...]:
    """Returns the setting of every arm.

    Raises:
        DocumentError: two arms of a task would differ in more than their memory.
    """
    profile = profile_sha256(runtime)
    arms = tuple(
        setting_of(task, condition.id, agents, RETRY, profile, gateway=gateway, runtime=runtime)
        for task in tasks
        for condition in conditions
    )
    unequal = inequality(arms) or unequal_budgets(conditions)
    if unequal:
        raise DocumentError(
            "arms-unequal",
            unequal,
            hint="give all arms of a task the same limits, image, agent, caps, environment and budget",
        )
    return arms


def _conditions(
    request: PlanRequest, fixtures: Path, agents: Sequence[str]
) -> tuple[Condition, ...]:
    registry = load_conditions(fixtures)
    chosen = _named(request, registry) if request.conditions else _matrix(request, registry, agents)
    for condition in chosen:
        without = [a for a in agents if condition.delivery not in channels_of(a)]
        if without:
            raise UsageError(
                "delivery-not-supported",
                f"condition {condition.id}: expected agents with the channel {condition.delivery}, found that {', '.join(without)} takes memory by {', '.join(sorted(channels_of(without[0])))}",
                hint="choose another arm (`memtrial list conditions`), or plan these agents apart",
            )
        if condition.gives_tools and not _serves_tools(condition):
            raise UsageError(
                "adapter-serves-no-tools",
                f"condition {condition.id}: expected a built-in adapter that serves tools ({', '.join(sorted(SERVES_TOOLS))}), found {condition.adapter_kind} {condition.adapter}",
                hint="give the arm another delivery",
            )
    check_pins(chosen)
    return chosen


def _serves_tools(condition: Condition) -> bool:
    """Whether an arm's system can serve: another package, or a program, may go by the name of one that can."""
    return condition.adapter_kind == "builtin" and condition.adapter in SERVES_TOOLS


def _named(request: PlanRequest, registry: ConditionRegistry) -> tuple[Condition, ...]:
    known = {condition.id: condition for condition in registry.conditions}
    meant = {old.id: old.use for old in registry.legacy}
    for name in request.conditions:
        if name in meant:
            raise UsageError(
                "condition-unknown",
                f"expected a condition of the registry, found the legacy id {name!r}",
                hint=f"did you mean {meant[name]}? choose with --condition",
            )
        if name not in known:
            raise unknown_name("condition", name, known, option="--condition")
    return tuple(c for c in registry.conditions if c.id in request.conditions)


def _matrix(
    request: PlanRequest, registry: ConditionRegistry, agents: Sequence[str]
) -> tuple[Condition, ...]:
    """Returns the arms of a matrix; `all` leaves out those whose channel not every agent has."""
    if request.matrix == "primary":
        return tuple(c for c in registry.conditions if c.role == "primary")
    if request.matrix == "implemented":
        return tuple(c for c in registry.conditions if c.standard)
    common = frozenset.intersection(*(channels_of(agent) for agent in agents))
    return tuple(c for c in registry.conditions if c.delivery in common)


def _tasks(request: PlanRequest, fixtures: Path) -> tuple[LoadedTask, ...]:
    names = request.tasks or tuple(list_tasks(fixtures))
    tasks = tuple(load_task(fixtures, name) for name in dict.fromkeys(names))
    chosen = tuple(t for t in tasks if request.task_set == "full" or t.card.smoke or request.tasks)
    if not chosen:
        raise UsageError(
            "no-tasks",
            f"expected at least one task in set {request.task_set}, found none",
            hint="run `memtrial tasks`",
        )
    return tuple(sorted(chosen, key=lambda task: task.card.id))


def _agents(request: PlanRequest, images: Path) -> tuple[AgentPin, ...]:
    pins = []
    for name in dict.fromkeys(request.agents):
        speech = speech_of(driver_for(name).name)
        program = images / "agent" / ("chat.py" if speech else "scripted.py")
        identity = identity_of(images, name) if is_packaged(name) else None
        live = speech is not None and request.live is not None
        pins.append(
            AgentPin(
                name=name,
                kind="live_model" if live else "scripted_model" if speech else "scripted",
                program_sha256=sha256_hex(
                    recipe_bytes(images, name) if identity else program.read_bytes()
                ),
                model=(request.model if live else speech.model) if speech else None,
                reasoning_effort=request.reasoning_effort if live else None,
                identity=identity,
            )
        )
    pins += [_described(command, request, images) for command in request.commands]
    if not pins:
        raise UsageError(
            "no-agents", "expected at least one agent, found none", hint="choose with --agent"
        )
    return tuple(pins)


def _described(command: CommandAgent, request: PlanRequest, images: Path) -> AgentPin:
    """Returns the pin of an agent that a file describes.

    Raises:
        UsageError: it takes the name of an agent of ours, or of another described one.
        EnvironmentMissing: it names a layer that has no recipe.
    """
    names = [other.agent for other in request.commands]
    if command.agent in AGENTS or names.count(command.agent) > 1:
        raise UsageError(
            "agent-name-taken",
            f"expected a name of its own for each described agent, found {command.agent} again",
            hint="choose another name in its file",
        )
    identity = identity_of(images, command.layer) if command.layer else None
    return AgentPin(
        name=command.agent,
        kind="scripted_model" if request.live is None else "live_model",
        program_sha256=command.digest_sha256(),
        model=command.model if request.live is None else request.model,
        reasoning_effort=None if request.live is None else request.reasoning_effort,
        identity=identity,
        command=command,
    )


def _validations(
    request: PlanRequest, fixtures: Path, tasks: tuple[LoadedTask, ...]
) -> dict[str, str | None]:
    """Returns the digest of each task's recorded validation; all are looked at before an image is made."""
    report = read_report(fixtures)
    official = request.phase == "official"
    return {task.card.id: check_valid(task, report, official=official) for task in tasks}


def _task_pins(
    request: PlanRequest, fixtures: Path, tasks: tuple[LoadedTask, ...], image_pins: ImagePins
) -> tuple[TaskPin, ...]:
    valid = _validations(request, fixtures, tasks)
    return tuple(_task_pin(task, image_pins, valid[task.card.id]) for task in tasks)


def _task_pin(task: LoadedTask, image_pins: ImagePins, validation: str | None) -> TaskPin:
    agent_image, verifier_image = image_pins(task)
    return TaskPin(
        digests=task.digests,
        tree=task.source.expect.tree,
        commit=task.source.expect.commit,
        limits=task.brief.limits,
        agent_image=agent_image,
        verifier_image=verifier_image,
        validation_sha256=validation,
    )


def _layer_of(agent: AgentPin) -> str:
    layer = agent.command.layer if agent.command else None
    return layer or agent.name


def _with_agents(
    pins: tuple[TaskPin, ...],
    tasks: tuple[LoadedTask, ...],
    agents: tuple[AgentPin, ...],
    agent_pins: AgentPins | None,
) -> tuple[TaskPin, ...]:
    """Adds the images of agents that have a layer of their own."""
    if agent_pins is None:
        return pins
    packaged = [agent for agent in agents if agent.identity is not None]
    return tuple(
        task_pin.model_copy(
            update={
                "agent_images": tuple(
                    AgentImage(agent=agent.name, image=agent_pins(task, _layer_of(agent)))
                    for agent in packaged
                )
            }
        )
        for task_pin, task in zip(pins, tasks, strict=True)
    )


def _trials(
    request: PlanRequest,
    tasks: tuple[LoadedTask, ...],
    conditions: tuple[Condition, ...],
    agents: tuple[AgentPin, ...],
) -> tuple[Trial, ...]:
    cells = [
        Trial(seq=0, task_id=task.card.id, condition_id=condition.id, agent=agent.name, epoch=epoch)
        for task in tasks
        for condition in conditions
        for agent in agents
        for epoch in range(1, request.epochs + 1)
    ]
    # A keyed hash orders the cells: reproducible anywhere, and arms interleave.
    cells.sort(key=lambda cell: sha256_hex(f"{request.order_seed}|{cell.key}".encode()))
    return tuple(cell.model_copy(update={"seq": seq}) for seq, cell in enumerate(cells))

"""The plan: everything that is fixed before anything runs. Its digest is what an approval will sign."""

from __future__ import annotations

from typing import Literal, Self, TypeVar

from pydantic import Field, model_validator

from orchestrator.core.errors import DocumentError
from orchestrator.model.agents import AgentIdentity, CommandAgent
from orchestrator.model.base import (
    Closed,
    Document,
    GitId,
    ImageId,
    RuntimeName,
    Sha256,
    Slug,
    Text,
)
from orchestrator.model.condition import Condition
from orchestrator.model.gateway import AnyGatewayPin, LivePin, standing_of
from orchestrator.model.review import ReviewPin
from orchestrator.model.symmetry import ArmSetting, arm_setting, inequality, unequal_budgets
from orchestrator.model.task import Limits, TaskDigests

P = TypeVar("P")


def _known(kind: str, name: str, found: P | None) -> P:
    if found is None:
        raise DocumentError(
            "plan-lacks",
            f"expected a {kind} of the plan, found {name!r}",
            hint="compare the document that names it with plan.json",
        )
    return found


class AgentPin(Closed):
    """Which agent runs. A scripted agent or model knows the answer: its trials are diagnostic for ever.

    `program_sha256` is that of our program, of the recipe of a packaged agent, or of a description.
    `identity` names the package of an agent that has an image layer of its own, `command` is the whole
    description of one that is a command line.
    """

    name: Slug
    kind: Literal["scripted", "scripted_model", "live_model"]
    program_sha256: Sha256
    model: str | None = None
    reasoning_effort: str | None = None
    identity: AgentIdentity | None = None
    command: CommandAgent | None = None


class ImagePin(Closed):
    """An image by its id and layers (diff ids, base first)."""

    id: ImageId
    diff_ids: tuple[ImageId, ...] = Field(min_length=1)


class AgentImage(Closed):
    """The image of a task for an agent that has a layer of its own."""

    agent: Slug
    image: ImagePin


class TaskPin(Closed):
    """A task by digests, checkout, images and recorded validation (null: none for exactly these files).

    `agent_images` are the images of agents that have a layer of their own; all others have `agent_image`.
    """

    digests: TaskDigests
    tree: GitId
    commit: GitId
    limits: Limits
    agent_image: ImagePin
    verifier_image: ImagePin
    agent_images: tuple[AgentImage, ...] = ()
    validation_sha256: Sha256 | None = None

    def for_agent(self, agent: str) -> TaskPin:
        """Returns the pin with the image that an agent's containers are made from."""
        own = next((item.image for item in self.agent_images if item.agent == agent), None)
        return self if own is None else self.model_copy(update={"agent_image": own})


class CuratedPin(Closed):
    """The curated file of one task, with its log. `maintenance_s`: what keeping it took a person, in seconds."""

    task_id: Slug
    file_sha256: Sha256
    log_sha256: Sha256
    curator_kind: Literal["human", "synthetic"]
    maintenance_s: int | None = Field(default=None, ge=0)


class TaskParity(Closed):
    """What the memory system of every arm of a task is told and asked, by digest; k is each arm's own."""

    task_id: Slug
    sessions_sha256: Sha256
    query_sha256: Sha256


class MemoryParity(Closed):
    """What the memory systems of all arms have in common: template, limits of steps, and what they are told."""

    template_sha256: Sha256
    files_in_scope: bool
    step_ms: int = Field(gt=0)
    settle_s: int = Field(gt=0)
    answer_bytes: int = Field(gt=0)
    tasks: tuple[TaskParity, ...]

    def task(self, task_id: str) -> TaskParity:
        """Returns the parity of a task; raises DocumentError where the plan names none."""
        return _known("task", task_id, next((t for t in self.tasks if t.task_id == task_id), None))


class Trial(Closed):
    """One cell: task x condition x agent x epoch, with its place in the order."""

    seq: int = Field(ge=0)
    task_id: Slug
    condition_id: Slug
    agent: Slug
    epoch: int = Field(gt=0)

    @property
    def key(self) -> str:
        """The trial's stable name within a plan."""
        return f"{self.task_id}/{self.condition_id}/{self.agent}/e{self.epoch}"


class Retry(Closed):
    """Only infrastructure outcomes are retried: so many attempts, with growing waits between them.

    The wait before retry n is `min(wait_initial_ms * 2**(n-1) + jitter, wait_max_ms)`, the jitter drawn
    evenly from 0 to `wait_jitter_ms`. The policy holds for each process that works on the run.
    """

    max_attempts: int = Field(gt=0, le=10)
    wait_initial_ms: int = Field(ge=0, le=600_000)
    wait_max_ms: int = Field(ge=0, le=3_600_000)
    wait_jitter_ms: int = Field(ge=0, le=600_000)


class Toolchain(Closed):
    """Programs outside the images that decide an injection, and the lock of the suites' runner inside them."""

    sqlite_version: Text
    tokenizer: Text
    tokenizer_data_sha256: Sha256
    python_lock_sha256: Sha256


class Plan(Document):
    """A fixed, ordered set of trials and everything that they depend on.

    `runtime` names the engine's container runtime; null is whatever the engine has as its default.
    """

    suite: Literal["coding-v1"]
    phase: Literal["local", "smoke", "official"]
    namespace: Slug
    task_set: Literal["smoke", "full"]
    matrix: Literal["primary", "implemented", "all"]
    epochs: int = Field(gt=0, le=1000)
    order_seed: int = Field(ge=0)
    diagnostic: bool
    source_revision: Text
    source_dirty: bool
    agents: tuple[AgentPin, ...] = Field(min_length=1)
    conditions: tuple[Condition, ...] = Field(min_length=1)
    curated: tuple[CuratedPin, ...] = ()
    reviews: tuple[ReviewPin, ...] = ()
    tasks: tuple[TaskPin, ...] = Field(min_length=1)
    profile_sha256: Sha256
    runtime: RuntimeName | None
    toolchain: Toolchain
    retry: Retry
    gateway: AnyGatewayPin | None = None
    parity: MemoryParity
    arms: tuple[ArmSetting, ...] = Field(min_length=1)
    trials: tuple[Trial, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _names_are_unique(self) -> Self:
        named = {
            "tasks": [task.digests.id for task in self.tasks],
            "conditions": [condition.id for condition in self.conditions],
            "agents": [agent.name for agent in self.agents],
            "curated": [pin.task_id for pin in self.curated],
        }
        for what, names in named.items():
            twice = next((name for name in names if names.count(name) > 1), None)
            if twice is not None:
                raise ValueError(f"{what} must be unique, found {twice} more than once")
        return self

    @model_validator(mode="after")
    def _every_reviewed_cell_has_its_log(self) -> Self:
        cells = [
            (condition.id, task.digests.id)
            for condition in self.conditions
            if condition.reviews is not None
            for task in self.tasks
        ]
        if [(pin.condition_id, pin.task_id) for pin in self.reviews] != cells:
            raise ValueError("reviews must be exactly reviewed conditions x tasks, in that order")
        return self

    @model_validator(mode="after")
    def _trials_are_the_matrix(self) -> Self:
        cells = {
            (task.digests.id, condition.id, agent.name, epoch)
            for task in self.tasks
            for condition in self.conditions
            for agent in self.agents
            for epoch in range(1, self.epochs + 1)
        }
        found = [(t.task_id, t.condition_id, t.agent, t.epoch) for t in self.trials]
        if len(found) != len(cells) or set(found) != cells:
            raise ValueError("trials must be exactly tasks x conditions x agents x epochs")
        if [trial.seq for trial in self.trials] != list(range(len(self.trials))):
            raise ValueError("seq must count the trials from 0 in order")
        if not self.diagnostic and any("scripted" in agent.kind for agent in self.agents):
            raise ValueError("a plan with a scripted agent is diagnostic")
        if self.gateway is None and any(agent.kind == "scripted_model" for agent in self.agents):
            raise ValueError("an agent that asks a model needs the gateway")
        return self

    @model_validator(mode="after")
    def _live_is_told(self) -> Self:
        live = isinstance(self.gateway, LivePin)
        kinds = {agent.kind for agent in self.agents}
        if live is not ("live_model" in kinds) or (live and kinds != {"live_model"}):
            raise ValueError("a live plan has live agents only, and only a live plan has them")
        if isinstance(self.gateway, LivePin):
            if self.gateway.standing != standing_of(self.phase, self.gateway.upstream):
                raise ValueError(
                    "a live plan is directional in every phase but official, and a rehearsal before a fake provider"
                )
            if {agent.model for agent in self.agents} != {self.gateway.model}:
                raise ValueError("every agent of a live plan asks the plan's model")
        return self

    @model_validator(mode="after")
    def _arms_are_equal(self) -> Self:
        named = [(arm.task_id, arm.condition_id) for arm in self.arms]
        cells = [(task.digests.id, c.id) for task in self.tasks for c in self.conditions]
        if named != cells:
            raise ValueError("arms must be exactly tasks x conditions, in that order")
        unequal = inequality(self.arms) or unequal_budgets(self.conditions)
        if unequal:
            raise ValueError(unequal)
        for arm in self.arms:
            if arm != self.setting(arm.task_id, arm.condition_id):
                raise ValueError(
                    f"task {arm.task_id}: the setting of {arm.condition_id} is not what the plan's pins give"
                )
        return self

    @property
    def standing(self) -> Literal["diagnostic", "directional", "rehearsal", "official"]:
        """What the evidence of a run of this plan is worth at most; claims rest on official alone."""
        if self.diagnostic or not isinstance(self.gateway, LivePin):
            return "diagnostic"
        return self.gateway.standing

    def setting(self, task_id: str, condition_id: str) -> ArmSetting:
        """Returns the setting of an arm as the pins of this plan give it."""
        return setting_of(
            self.task(task_id),
            condition_id,
            self.agents,
            self.retry,
            self.profile_sha256,
            gateway=self.gateway,
            runtime=self.runtime,
        )

    def task(self, task_id: str) -> TaskPin:
        """Returns the pin of a task of this plan; raises DocumentError for any other."""
        return _known(
            "task", task_id, next((t for t in self.tasks if t.digests.id == task_id), None)
        )

    def pin_of(self, trial: Trial) -> TaskPin:
        """Returns the pin of a trial's task, with the image of the trial's agent."""
        return self.task(trial.task_id).for_agent(trial.agent)

    def condition(self, condition_id: str) -> Condition:
        """Returns a condition of this plan; raises DocumentError for any other."""
        found = next((item for item in self.conditions if item.id == condition_id), None)
        return _known("condition", condition_id, found)

    def agent(self, name: str) -> AgentPin:
        """Returns the pin of an agent of this plan; raises DocumentError for any other."""
        return _known(
            "agent", name, next((item for item in self.agents if item.name == name), None)
        )


def setting_of(
    task: TaskPin,
    condition_id: str,
    agents: tuple[AgentPin, ...],
    retry: Retry,
    profile_sha256: str,
    *,
    gateway: AnyGatewayPin | None = None,
    runtime: str | None = None,
) -> ArmSetting:
    """Returns the setting of one arm of a task; nothing in it depends on the condition."""
    return arm_setting(
        task.digests.id,
        condition_id,
        limits=task.limits,
        images=(
            task.agent_image,
            task.verifier_image,
            *(item.image for item in task.agent_images),
        ),
        agents=agents,
        caps={
            "retry": retry.model_dump(mode="json"),
            "gateway": gateway.model_dump(mode="json") if gateway else None,
        },
        environment={
            "profile_sha256": profile_sha256,
            "commit": task.commit,
            "tree": task.tree,
            "runtime": runtime,
        },
    )

"""What one trial works with: the one thing that all its stages, doors and records share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.memory.tokens import TokenCounter
from orchestrator.model.condition import Condition
from orchestrator.model.exchange import Exchange
from orchestrator.model.gateway import Traffic
from orchestrator.model.plan import Plan, TaskPin, Trial
from orchestrator.model.proof import InjectionProof
from orchestrator.model.review import ReviewLog
from orchestrator.model.toolcalls import ToolLog
from orchestrator.pipeline.isolation import Guard
from orchestrator.pipeline.toolserver import ToolDoor
from orchestrator.protocols import (
    AgentDriver,
    GatewayPlace,
    MemoryAdapter,
    ModelGateway,
    Sandbox,
    Workspace,
)
from orchestrator.sources.loader import LoadedTask


@dataclass(slots=True)
class Bench:
    """What one trial works with: its cell of the plan, its task, its ports."""

    plan: Plan
    plan_sha256: str
    trial: Trial
    task: LoadedTask
    adapter: Callable[[], MemoryAdapter]
    sandbox: Sandbox
    counter: TokenCounter
    guard: Guard
    gateway: ModelGateway | None = None
    driver: AgentDriver | None = field(default=None)
    workspace: Workspace | None = field(default=None)
    gateway_place: GatewayPlace | None = field(default=None)
    traffic: Traffic | None = field(default=None)
    record: Path | None = field(default=None)
    steering: tuple[tuple[str, tuple[str, ...]], ...] = ()
    review: ReviewLog | None = None
    calls: tuple[Exchange, ...] = ()
    proof: InjectionProof | None = field(default=None)
    tools: ToolDoor | None = field(default=None)
    tool_log: ToolLog | None = field(default=None)

    @property
    def pin(self) -> TaskPin:
        """The task as the plan pins it, with the image of the trial's agent."""
        return self.plan.pin_of(self.trial)

    @property
    def condition(self) -> Condition:
        """The trial's arm."""
        return self.plan.condition(self.trial.condition_id)

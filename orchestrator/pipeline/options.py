"""What a plan is asked for, as given on the command line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from orchestrator.model.agents import CommandAgent
    from orchestrator.model.usage import PriceTable


@dataclass(frozen=True, slots=True)
class LiveRequest:
    """A real model: where its calls go, its prices, and the most that the whole run may spend."""

    provider: Literal["anthropic", "openai"]
    origin: str
    prices: PriceTable
    max_usd_micros: int


CapLevel = Literal["call", "trial", "condition", "run"]
# From the innermost to the one around all others.
LEVELS: tuple[CapLevel, ...] = ("call", "trial", "condition", "run")


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """The choice of suite, matrix and agents. Empty selections mean all of the task set or matrix.

    `commands` describe agents by a file; they come behind those that are named.
    """

    agents: tuple[str, ...]
    suite: Literal["coding-v1"] = "coding-v1"
    phase: Literal["local", "smoke", "official"] = "local"
    namespace: str = "default"
    task_set: Literal["smoke", "full"] = "smoke"
    matrix: Literal["primary", "implemented", "all"] = "implemented"
    conditions: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    epochs: int = 1
    order_seed: int = 0
    model: str | None = None
    reasoning_effort: str | None = None
    runtime: str | None = None
    # In micro-USD; a level that is not named keeps the cap that the gateway's mode has by itself.
    caps: tuple[tuple[CapLevel, int], ...] = ()
    live: LiveRequest | None = None
    commands: tuple[CommandAgent, ...] = ()

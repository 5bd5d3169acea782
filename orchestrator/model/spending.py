"""What models cost a trial, an arm and a run, and what agents say that they used. Reads and writes nothing.

Money is the spend book's word, tokens are the traffic record's. An agent's own figures are only compared.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from orchestrator.model.base import Closed, Day, Slug, Text
from orchestrator.model.exchange import Cap, Cost, Role
from orchestrator.model.usage import Api, Caps, Usage


class RoleSpending(Closed):
    """What one role of a trial used. `bounded` calls were charged their bound: no usage was reported, or nobody settled them."""

    role: Role
    calls: int = Field(ge=0)
    bounded: int = Field(ge=0)
    usage: Usage
    cost: Cost


class ServedModel(Closed):
    """Which model (and fingerprint) answered how many calls that asked for a model."""

    api: Api
    asked: Text
    served: Text
    calls: int = Field(gt=0)


class CapCount(Closed):
    """How many calls a cap refused."""

    cap: Cap
    calls: int = Field(gt=0)


class Spending(Closed):
    """All model calls of a trial, an arm or a run.

    `calls` were admitted, each with its lines in the spend book; `refused` never reached a model;
    `unrecorded` stand in the spend book alone, because their process died before the exchange was written.
    """

    calls: int = Field(ge=0)
    refused: int = Field(ge=0)
    unrecorded: int = Field(ge=0)
    usage: Usage
    cost: Cost
    roles: tuple[RoleSpending, ...]
    caps_met: tuple[CapCount, ...]
    served: tuple[ServedModel, ...]


class OwnUsage(Closed):
    """What an agent says in its own events that it used, and in which agent's words it says so."""

    words: Literal["codex", "claude_code", "opencode"]
    usage: Usage


class OwnFigures(Closed):
    """Agents' own figures beside the gateway's, over the graded trials whose agent gave any."""

    trials: int = Field(gt=0)
    differing: int = Field(ge=0)
    own: Usage
    gateway: Usage


class ArmSpending(Closed):
    """The model calls of an arm, and its dearest trial."""

    total: Spending
    dearest_trial_usd_micros: int = Field(ge=0)
    own: OwnFigures | None


class ConditionSpending(Closed):
    """What a condition cost over all agents; the cap per condition is about this sum."""

    condition_id: Slug
    cost: Cost


class RunSpending(Closed):
    """The model calls of a run against the plan's caps, which are equal in every arm."""

    model: Text
    prices_dated: Day
    caps: Caps
    total: Spending
    conditions: tuple[ConditionSpending, ...]
    torn_bytes: int = Field(ge=0)

"""What a gateway is told and what it tells: its part of a plan, its set-up, the traffic of a trial, a replay.

Reads and writes nothing. A live set-up asks and allows nothing: the process that gets it passes the gate
itself, and the permit is a value in that process and never a file.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from orchestrator.model.approval import Upstream
from orchestrator.model.base import Closed, Document, Sha256, Slug, Text
from orchestrator.model.exchange import Cap, Cost, Match, Role
from orchestrator.model.script import Script
from orchestrator.model.usage import Api, Caps, PriceTable, Usage


class GatewayPin(Closed):
    """The gateway as a plan fixes it: prices of a day and caps that are equal in every arm."""

    mode: Literal["scripted"]
    model: Text
    script_sha256: Sha256
    prices: PriceTable
    caps: Caps


class LivePin(Closed):
    """A real model as a plan fixes it: where calls go, prices of a day, caps that are equal in every arm.

    `standing` is what the run's evidence is worth at most: only phase official is more than directional, and
    there only before a real provider; before a fake on this machine it is a rehearsal.
    """

    mode: Literal["live"] = "live"
    standing: Literal["directional", "rehearsal", "official"]
    model: Text
    upstream: Upstream
    prices: PriceTable
    caps: Caps

    @model_validator(mode="after")
    def _priced(self) -> Self:
        if self.prices.find(self.model) is None:
            raise ValueError(f"the price table has no price for {self.model}")
        return self


def standing_of(
    phase: Literal["local", "smoke", "official"], upstream: Upstream
) -> Literal["directional", "rehearsal", "official"]:
    """Returns what the evidence of a live plan is worth at most."""
    if phase != "official":
        return "directional"
    return "rehearsal" if upstream.is_loopback else "official"


AnyGatewayPin = Annotated[GatewayPin | LivePin, Field(discriminator="mode")]


class Bounds(Closed):
    """Limits of the gateway's own server: sizes in bytes, times in seconds."""

    head_bytes: int = Field(default=64 * 1024, gt=0)
    body_bytes: int = Field(default=32 * 1024 * 1024, gt=0)
    answer_bytes: int = Field(default=64 * 1024 * 1024, gt=0)
    connections: int = Field(default=512, gt=0)
    # Of one trial, so that none can take what the others need.
    trial_connections: int = Field(default=64, gt=0)
    trial_bytes: int = Field(default=256 * 1024 * 1024, gt=0)
    trial_refusals: int = Field(default=10_000, gt=0)
    trial_refused_bytes: int = Field(default=64 * 1024 * 1024, gt=0)
    idle_s: float = Field(default=120, gt=0)
    read_s: float = Field(default=60, gt=0)
    write_s: float = Field(default=60, gt=0)
    upstream_idle_s: float = Field(default=600, gt=0)
    upstream_total_s: float = Field(default=3600, gt=0)
    close_s: float = Field(default=30, gt=0)


class CassetteUse(Closed):
    """Which attempts of a recorded folder are played again."""

    folder: Text
    attempts: tuple[tuple[Text, int], ...]


class GatewaySetup(Document):
    """What a gateway process is started with. Exactly one of script and cassette is given."""

    folder: Text
    sockets: Text
    prices: PriceTable
    caps: Caps
    script: Script | None = None
    cassette: CassetteUse | None = None
    bounds: Bounds = Bounds()


class LiveSetup(Document):
    """What a live gateway process is started with: where the plan and its approval lie, and whose run it is."""

    folder: Text
    sockets: Text
    plan: Text
    approval: Text
    home: Text
    run_id: Slug
    bounds: Bounds = Bounds()


class RoleTraffic(Closed):
    """What one role of a trial sent and used."""

    role: Role
    calls: int = Field(ge=0)
    refused: int = Field(ge=0)
    usage: Usage
    cost: Cost


class ServedChange(Closed):
    """The provider answered with another model or fingerprint than before, in the middle of a run."""

    arm: Slug
    api: Api
    asked: Text
    before: Text
    after: Text


class Divergence(Closed):
    """Where a replayed trial left its recording."""

    api: Api
    role: Role
    ordinal: int = Field(ge=0)
    match: Match
    pointer: str
    recorded: str
    found: str


class Traffic(Document):
    """The model traffic of one attempt: totals, and every finding that a report must show."""

    trial: Text
    attempt: int = Field(ge=0)
    roles: tuple[RoleTraffic, ...]
    matches: tuple[tuple[Match, int], ...] = ()
    divergence: Divergence | None = None
    served_changes: tuple[ServedChange, ...] = ()
    lookups: tuple[str, ...] = ()
    caps_met: tuple[Cap, ...] = ()
    unsettled: int = Field(ge=0)
    exchanges_sha256: Sha256


class ReplayedTrial(Closed):
    """How one trial fared when its recording was played again."""

    trial: Text
    exact: int = Field(ge=0)
    normalised: int = Field(ge=0)
    divergence: Divergence | None
    recorded_verdict_sha256: Sha256
    replayed_verdict_sha256: Sha256 | None

    @property
    def same(self) -> bool:
        """Whether the replay came to the same verdict."""
        return self.recorded_verdict_sha256 == self.replayed_verdict_sha256


class ReplayReport(Document):
    """A recorded run against its replay."""

    recorded_run: Slug
    replayed_run: Slug
    trials: tuple[ReplayedTrial, ...]
    same: bool

"""The record of one model call as the gateway saw it, and one line of the spend book.

The two files of a recorded run are lines of these documents, each carrying the digest of the line
before it. Bodies are stored apart, in pieces, so that what calls share is stored once.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from orchestrator.model.base import Closed, Document, Sha256, Slug, Text, UtcTime
from orchestrator.model.usage import Api, Usage

Role = Literal["agent", "memory", "judge"]
Outcome = Literal[
    "answered",
    "client_gone",
    "upstream_cut",
    "upstream_refused",
    "upstream_unreachable",
    "not_permitted",
    "refused_request",
    "refused_token",
    "refused_route",
    "refused_policy",
    "refused_budget",
    "refused_secret",
    "cassette_miss",
]
# The first four are money of a scope; the others count over the whole run.
Cap = Literal[
    "call",
    "trial",
    "condition",
    "run",
    "agent_calls",
    "provider_calls",
    "input_tokens",
    "output_tokens",
]
UsageSource = Literal["reported", "reservation", "none"]
Match = Literal["exact", "normalised", "divergent", "exhausted"]


class Body(Closed):
    """Bytes by digest and by the pieces that they are stored in. No pieces: the bytes are withheld."""

    sha256: Sha256
    bytes: int = Field(ge=0)
    pieces: tuple[Sha256, ...]


class Header(Closed):
    """A header as it came, name in lower case; what would authenticate is replaced by `redacted`."""

    name: Text
    value: str


class UpstreamTry(Closed):
    """One try to reach the provider. `status` is null when no answer came."""

    status: int | None
    error: str | None
    waited_ms: int = Field(ge=0)


class Cost(Closed):
    """What a call costs, and what it would cost if every input token were an uncached one."""

    usd_micros: int = Field(ge=0)
    uncached_usd_micros: int = Field(ge=0)


class Exchange(Document):
    """One request with its answer. `ordinal` counts the admitted calls of trial, role and API from 0."""

    kind: Literal["exchange"] = "exchange"
    trial: Text | None
    attempt: int = Field(ge=0)
    role: Role | None
    api: Api | None
    ordinal: int | None
    mode: Literal["scripted", "replay", "live"]
    method: Text
    target: str
    request_headers: tuple[Header, ...]
    request: Body
    model: str | None
    outcome: Outcome
    detail: str | None
    cap: Cap | None
    status: int
    response_headers: tuple[Header, ...]
    response: Body
    tries: tuple[UpstreamTry, ...]
    served_model: str | None
    fingerprint: str | None
    usage: Usage | None
    usage_source: UsageSource
    reserved_usd_micros: int = Field(ge=0)
    cost: Cost
    match: Match | None
    at: UtcTime
    first_byte_ms: int | None
    total_ms: int = Field(ge=0)


class Lookup(Document):
    """A name that something in a container asked for. There is no reason to ask: it is a finding."""

    kind: Literal["lookup"] = "lookup"
    trial: Text
    attempt: int = Field(ge=0)
    name: str
    at: UtcTime


class Reserved(Closed):
    """Money set aside for a call before it is forwarded, in micro-USD."""

    kind: Literal["reserved"] = "reserved"
    call: int = Field(ge=0)
    trial: Text
    condition: Slug
    role: Role
    model: Text
    usd_micros: int = Field(ge=0)


class Settled(Closed):
    """What a call cost in the end. `source` says whether the provider reported it."""

    kind: Literal["settled"] = "settled"
    call: int = Field(ge=0)
    usd_micros: int = Field(ge=0)
    uncached_usd_micros: int = Field(ge=0)
    source: UsageSource


class TokensReserved(Closed):
    """The most tokens that a call may use, under an approval that bounds them. Follows its `reserved`."""

    kind: Literal["tokens_reserved"] = "tokens_reserved"
    call: int = Field(ge=0)
    input_tokens: int = Field(ge=0)
    output_tokens: int = Field(ge=0)


class TokensSettled(Closed):
    """How many tokens a call counts for in the end. Follows its `settled`."""

    kind: Literal["tokens_settled"] = "tokens_settled"
    call: int = Field(ge=0)
    input_tokens: int = Field(ge=0)
    output_tokens: int = Field(ge=0)


class AgentCalled(Closed):
    """An attempt of a trial was opened, under an approval that bounds how many there may be."""

    kind: Literal["agent_called"] = "agent_called"
    trial: Text
    attempt: int = Field(ge=0)


SpendBody = Annotated[
    Reserved | Settled | TokensReserved | TokensSettled | AgentCalled, Field(discriminator="kind")
]
TrafficBody = Annotated[Exchange | Lookup, Field(discriminator="kind")]


class SpendLine(Document):
    """One line of the spend book, the authority on money."""

    seq: int = Field(ge=0)
    prev_sha256: Sha256
    body: SpendBody


class TrafficLine(Document):
    """One line of the traffic record."""

    seq: int = Field(ge=0)
    prev_sha256: Sha256
    body: TrafficBody

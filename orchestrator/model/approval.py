"""What is signed before money is spent: the approval of one exact run, its withdrawal, and their envelope.

Closed documents; the signature covers their exact RFC 8785 bytes under a payload type of their own, so an
envelope of one kind can never stand for another. Times are whole seconds since 1970, money is micro-USD.
Reads and writes nothing.
"""

from __future__ import annotations

import unicodedata
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    StringConstraints,
    TypeAdapter,
    model_validator,
)
from pydantic.alias_generators import to_camel

from orchestrator.core.canonical import canonical_bytes
from orchestrator.model.base import Closed, Day, Document, GitId, ImageId, Sha256, Slug
from orchestrator.model.exchange import Role
from orchestrator.model.statement import Base64, Signature

LOCAL_TYPE = "application/vnd.memtrial.local-approval.v1+json"
APPROVAL_TYPE = "application/vnd.memtrial.approval.v1+json"
WITHDRAWAL_TYPE = "application/vnd.memtrial.withdrawal.v1+json"
MAX_WINDOW_S = 14 * 24 * 3600
OFFICIAL_NAMESPACE = "official-v1"
# A million dollars: above it a figure is a mistake.
MAX_USD_MICROS = 10**12
MAX_SAFE = 2**53 - 1


def _one_plain_line(text: str) -> str:
    """Returns the text; refuses what cannot be seen, is not in NFC, or is blank."""
    if not text.isprintable() or text.isspace() or not unicodedata.is_normalized("NFC", text):
        raise ValueError("a line of printable text")
    return text


# The last second of the year 9999: a later one cannot be told as a time.
LAST_SECOND = 253_402_300_799
EpochSeconds = Annotated[int, Field(ge=1, le=LAST_SECOND)]
Count = Annotated[int, Field(ge=1, le=10**9)]
Tokens = Annotated[int, Field(ge=1, le=10**13)]
UsdMicros = Annotated[int, Field(ge=1, le=MAX_USD_MICROS)]
Nonce = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Repository = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._/-]{0,199}$")]
# As people give it; names of what belongs to it are made of it.
NAME = r"[a-z0-9][a-z0-9._-]"
RepositoryName = Annotated[str, StringConstraints(pattern=rf"^{NAME}{{0,89}}/{NAME}{{0,89}}$")]
OrganisationName = Annotated[str, StringConstraints(pattern=rf"^{NAME}{{0,63}}$")]
Branch = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]{0,79}$")]
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,199}$")]
# One line for people, in any language: what a terminal shows as it is, composed as signed documents must be.
Reason = Annotated[
    str, StringConstraints(min_length=1, max_length=200), AfterValidator(_one_plain_line)
]
# Providers are reached over TLS; plain HTTP leads to this machine alone (fakes of a provider).
Origin = Annotated[
    str,
    StringConstraints(
        pattern=r"^(https://[a-z0-9][a-z0-9.-]{0,252}(:[1-9][0-9]{0,4})?|http://127\.0\.0\.1:[1-9][0-9]{0,4})$"
    ),
]


class Upstream(Closed):
    """Where the calls to one provider go."""

    provider: Literal["anthropic", "openai"]
    origin: Origin

    @property
    def is_loopback(self) -> bool:
        """Whether calls stay on this machine, with a fake of a provider."""
        return self.origin.startswith("http://127.0.0.1:")


class Window(Closed):
    """From when until when, in seconds since 1970; at most 14 days."""

    not_before_s: EpochSeconds
    expires_s: EpochSeconds

    @model_validator(mode="after")
    def _short(self) -> Self:
        if not 0 < self.expires_s - self.not_before_s <= MAX_WINDOW_S:
            raise ValueError("a window lasts more than nothing and at most 14 days")
        return self


class LocalApproval(Document):
    """The operator's own leave for one local run of one plan. What it allows is directional for ever."""

    kind: Literal["local"] = "local"
    approval_id: Slug
    phase: Literal["local"] = "local"
    standing: Literal["directional"] = "directional"
    plan_sha256: Sha256
    root_sha256: Sha256
    max_usd_micros: UsdMicros
    upstreams: tuple[Upstream, ...] = Field(min_length=1, max_length=2)
    nonce: Nonce
    window: Window


class InputPins(Closed):
    """Everything that a run is made from, by digest."""

    fixtures_sha256: Sha256
    conditions_sha256: Sha256
    memory_config_sha256: Sha256
    curator_manifest_sha256: Sha256
    installed_manifest_sha256: Sha256
    images: tuple[ImageId, ...] = Field(min_length=1)


class RunnerPin(Closed):
    """The agent's program and the model behind it. The effort is null where the model has none."""

    runner: Slug
    executable_sha256: Sha256
    model: Name
    upstream: Upstream
    reasoning_effort: Name | None


class PricingPin(Closed):
    """The price table by digest, and the two figures that a person reads, in micro-USD for a million tokens."""

    currency: Literal["USD"] = "USD"
    dated: Day
    table_sha256: Sha256
    input_usd_micros_per_million: UsdMicros
    output_usd_micros_per_million: UsdMicros


class ApprovedCaps(Closed):
    """Upper bounds of the whole run, all attempts counted."""

    max_agent_calls: Count
    max_provider_calls: Count
    max_input_tokens: Tokens
    max_output_tokens: Tokens
    max_cost_usd_micros: UsdMicros


class SupervisorPin(Closed):
    """Which supervisor may dispatch: name, uid, key, and the manifest of its installed files."""

    identity: Slug
    uid: Annotated[int, Field(ge=0, le=2**32 - 2)]
    keyid: Sha256
    manifest_sha256: Sha256


class RootPin(Closed):
    """The trust root that the signers saw, and the roles in it: whose signatures, and whose seal, count."""

    version: Count
    sha256: Sha256
    roles_sha256: Sha256


class SigstorePins(Closed):
    """Where a transparency log is used: its trusted root, signing configuration and log."""

    trusted_root_sha256: Sha256
    signing_config_sha256: Sha256
    log_id: Sha256


class LedgerPin(Closed):
    """The ledger of approvals as the signers saw it: it may only have grown since."""

    origin: Repository
    size: Annotated[int, Field(ge=0, le=MAX_SAFE)]
    root_sha256: Sha256


class _Governed(Document):
    """What smoke and official approvals have in common."""

    approval_id: Slug
    repository: Repository
    default_branch: Branch
    approved_commit: GitId
    plan_sha256: Sha256
    inputs: InputPins
    runner: RunnerPin
    roles: tuple[Role, ...] = Field(min_length=1, max_length=3)
    pricing: PricingPin
    caps: ApprovedCaps
    supervisor: SupervisorPin
    root: RootPin
    sigstore: SigstorePins | None
    ledger: LedgerPin
    nonce: Nonce
    window: Window


SMOKE_NAMESPACE = r"^smoke-[a-z0-9][a-z0-9._-]{0,73}$"


class SmokeApproval(_Governed):
    """Leave for a rehearsal: one epoch, in a namespace of its own."""

    kind: Literal["smoke"] = "smoke"
    phase: Literal["smoke"] = "smoke"
    namespace: Annotated[str, StringConstraints(pattern=SMOKE_NAMESPACE)]
    task_set: Literal["smoke"] = "smoke"
    epochs: Literal[1] = 1


class OfficialApproval(_Governed):
    """Leave for the run that claims may rest on: the full set, in the one official namespace."""

    kind: Literal["official"] = "official"
    phase: Literal["official"] = "official"
    namespace: Literal["official-v1"] = "official-v1"
    task_set: Literal["full"] = "full"
    epochs: Annotated[int, Field(ge=1, le=1000)]


GovernedApproval = Annotated[SmokeApproval | OfficialApproval, Field(discriminator="kind")]
GOVERNED: TypeAdapter[SmokeApproval | OfficialApproval] = TypeAdapter(GovernedApproval)


class Withdrawal(Document):
    """An approval that holds no longer, whatever its window says."""

    kind: Literal["withdrawal"] = "withdrawal"
    approval_id: Slug
    approval_sha256: Sha256
    reason: Reason
    withdrawn_s: EpochSeconds


class ManyEnvelope(Closed):
    """DSSE envelope with one signature or more."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, alias_generator=to_camel, populate_by_name=True
    )

    payload: Base64
    payload_type: Annotated[str, StringConstraints(pattern=r"^[a-z0-9./+-]{1,100}$")]
    signatures: tuple[Signature, ...] = Field(min_length=1, max_length=16)

    def canonical(self) -> bytes:
        """Returns the RFC 8785 bytes with the format's own names."""
        return canonical_bytes(self.model_dump(mode="json", by_alias=True))

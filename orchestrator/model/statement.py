"""in-toto statements about a run and its trials, and the DSSE envelope that carries their signature.

Formats: in-toto Statement v1, predicate test-result v0.1, SLSA provenance v1, DSSE v1. Two predicates are
this project's own: `TrialAccount` and `RunSummary` (schemas/). Field names follow the formats in JSON.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, StringConstraints
from pydantic.alias_generators import to_camel

from orchestrator.core.canonical import canonical_bytes
from orchestrator.model.attribution import Charge
from orchestrator.model.base import Closed, Document, Sha256, Slug, Text, UtcTime
from orchestrator.model.outcome import Outcome
from orchestrator.model.spending import Spending
from orchestrator.model.verdict import FailureReason

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PAYLOAD_TYPE = "application/vnd.in-toto+json"
TEST_RESULT = "https://in-toto.io/attestation/test-result/v0.1"
PROVENANCE = "https://slsa.dev/provenance/v1"
TRIAL_ACCOUNT = "urn:memtrial:predicate:trial-account:v1"
RUN_SUMMARY = "urn:memtrial:predicate:run-summary:v2"
BUNDLE_SEAL = "urn:memtrial:predicate:bundle-seal:v1"

Base64 = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9+/]*={0,2}$")]
KeyLabel = Literal["ephemeral-local", "operator"]


class _Foreign(Closed):
    """A part whose JSON names are camel case, as another project's format wants them."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, alias_generator=to_camel, populate_by_name=True
    )


class Digests(Closed):
    """A digest set with the one algorithm that is used here."""

    sha256: Sha256


class GitDigests(_Foreign):
    """A digest set of a git commit and its tree."""

    git_commit: Text
    git_tree: Text


class Resource(Closed):
    """Something that has a name and a digest: a subject, a dependency, a configuration."""

    name: Text
    digest: Digests | GitDigests


class TestResult(_Foreign):
    """Predicate test-result v0.1: the names of the tests that passed and failed."""

    # The name says test; pytest is not to collect it.
    __test__ = False

    result: Literal["PASSED", "FAILED"]
    configuration: tuple[Resource, ...]
    passed_tests: tuple[str, ...]
    failed_tests: tuple[str, ...]


class ExternalParameters(Closed):
    """What was asked for: the cell of the plan."""

    plan_sha256: Sha256
    task: Slug
    condition: Slug
    agent: Slug
    epoch: int = Field(gt=0)
    order_seed: int = Field(ge=0)


class BuildDefinition(_Foreign):
    """What was run, and from what."""

    build_type: Literal["urn:memtrial:trial:v1"] = "urn:memtrial:trial:v1"
    external_parameters: ExternalParameters
    resolved_dependencies: tuple[Resource, ...]


class BuilderVersion(Closed):
    """Version map of a builder."""

    memtrial: Text


class Builder(Closed):
    """Who ran it."""

    id: Text
    version: BuilderVersion


class BuildMetadata(_Foreign):
    """When it was run."""

    invocation_id: Text
    started_on: UtcTime
    finished_on: UtcTime


class RunDetails(_Foreign):
    """Who ran it, and when."""

    builder: Builder
    metadata: BuildMetadata


class Provenance(_Foreign):
    """Predicate SLSA provenance v1."""

    build_definition: BuildDefinition
    run_details: RunDetails


class InjectionAudit(Closed):
    """What memory put before the agent, by digest and count."""

    injection_sha256: Sha256
    text_sha256: Sha256
    tokens: int = Field(ge=0)
    max_tokens: int = Field(ge=0)
    included: tuple[Slug, ...]
    dropped: tuple[Slug, ...]
    facts_delivered: tuple[Slug, ...]
    facts_missing: tuple[Slug, ...]


class TrialAccount(Document):
    """Own predicate of a trial: cost, tokens, injection audit, attribution of a failure."""

    trial: Text
    outcome: Literal["resolved", "unresolved", "no_verdict"]
    ended: Outcome | None
    failure_reason: FailureReason | None
    attempts: int = Field(ge=0)
    infra_errors: int = Field(ge=0)
    wall_ms: int = Field(ge=0)
    container_ms: int = Field(ge=0)
    # By the gateway's spend book and traffic record; null where no model was asked.
    usage: Spending | None
    injection: InjectionAudit | None
    # To what the report charges a failed trial of an arm with memory; null for any other.
    attribution: Charge | None


class CheckpointPin(Closed):
    """A checkpoint by what it says."""

    origin: Text
    size: int = Field(ge=0)
    root_sha256: Sha256


class KeyPin(Closed):
    """Which key signed, and what kind of key it is."""

    keyid: Sha256
    label: KeyLabel


class ArmResult(Closed):
    """What an agent under a condition came to, as the report counts it: dropped trials in neither number."""

    agent: Slug
    condition: Slug
    verdicts: int = Field(ge=0)
    resolved: int = Field(ge=0)


class RunSummary(Document):
    """Own predicate of a run. `approval_sha256` is filled where the run needed an approval.

    `arms` are those of the report, whose digest stands beside them: no figure of theirs is counted twice.
    `standing` is what its evidence is worth at most: claims rest on official runs alone.
    """

    run_id: Slug
    phase: Literal["local", "smoke", "official"]
    diagnostic: bool
    standing: Literal["diagnostic", "directional", "rehearsal", "official"]
    complete: bool
    trials: int = Field(ge=0)
    arms: tuple[ArmResult, ...]
    plan_sha256: Sha256
    approval_sha256: Sha256 | None
    checkpoint: CheckpointPin
    report_sha256: Sha256
    claims_sha256: Sha256 | None
    key: KeyPin


class BundleSeal(Document):
    """Own predicate of a bundle: closes the list of its files."""

    run_id: Slug
    files: int = Field(gt=0)
    sealed_at: UtcTime
    key: KeyPin


class Statement(Closed):
    """in-toto Statement v1."""

    subject: tuple[Resource, ...] = Field(min_length=1)
    predicate_type: Text
    predicate: TestResult | Provenance | TrialAccount | RunSummary | BundleSeal

    def payload(self) -> bytes:
        """Returns the bytes that are signed: canonical JSON with the format's own names."""
        return canonical_bytes(
            {
                "_type": STATEMENT_TYPE,
                "subject": [item.model_dump(mode="json", by_alias=True) for item in self.subject],
                "predicateType": self.predicate_type,
                "predicate": self.predicate.model_dump(mode="json", by_alias=True),
            }
        )


class Signature(Closed):
    """One signature of an envelope."""

    keyid: Sha256
    sig: Base64


class Envelope(_Foreign):
    """DSSE envelope. Exactly one signature: nothing that is signed here has two signers yet."""

    payload: Base64
    payload_type: Text
    signatures: tuple[Signature, ...] = Field(min_length=1, max_length=1)

    def canonical(self) -> bytes:
        """Returns the RFC 8785 bytes with the format's own names."""
        return canonical_bytes(self.model_dump(mode="json", by_alias=True))

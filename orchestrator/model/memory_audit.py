"""The audit contract: what one trial's memory put before the agent, why, and what came of it.

Two types: an arm that has a memory system carries evidence, one that has none (`no_memory`, curated files)
cannot. Versions are read before anything else. Pure; counts are derived (`counts_of`), hashes recomputed.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, Self

from pydantic import Field, TypeAdapter, model_validator

from orchestrator.core.canonical import canonical_bytes, digest_sha256, sha256_hex
from orchestrator.core.errors import DocumentError
from orchestrator.core.strictjson import parse_json
from orchestrator.model.base import Closed, Sha256, Slug, Text, parse_one_of, require_canonical
from orchestrator.model.lifecycle import ContractFailure, DropReason
from orchestrator.model.report import Count

PLAN_VERSION: Final = 1
BUNDLE_VERSION: Final = 1
SUPPORTED = ((PLAN_VERSION, BUNDLE_VERSION),)
"""Pairs of plan version and bundle version that this memtrial can verify."""

BINDING_DOMAIN: Final = b"memtrial memory audit binding v1\0"
"""Separates the binding from every other SHA-256 of this project."""


class AuditCandidate(Closed):
    """One retrieved memory: its place, what it says by digest, and the facts of the key that it holds."""

    memory_id: Slug
    rank: int = Field(gt=0)
    tokens: int = Field(ge=0)
    text_sha256: Sha256
    facts: tuple[Slug, ...] = ()
    stale_facts: tuple[Slug, ...] = ()


class AuditDrop(Closed):
    """A candidate that was not selected, and why."""

    memory_id: Slug
    reason: DropReason


class AuditBudget(Closed):
    """What might be retrieved and injected, and what was."""

    unit: Literal["o200k_base"]
    k: int = Field(gt=0)
    max_tokens: int = Field(ge=0)
    tokens: int = Field(ge=0)


class AuditFact(Closed):
    """A fact of the key, and whether the injected text holds it."""

    fact_id: Slug
    delivered: bool


class AuditCounts(Closed):
    """Derived from the entries; a document whose figures differ is refused."""

    candidates: int = Field(ge=0)
    selected: int = Field(ge=0)
    dropped: int = Field(ge=0)
    injected: int = Field(ge=0)
    cited: int = Field(ge=0)
    used: int = Field(ge=0)
    stale_used: int = Field(ge=0)
    irrelevant_injected: int = Field(ge=0)
    missing_relevant: int = Field(ge=0)


class _Audit(Closed):
    plan_version: Literal[1] = PLAN_VERSION
    bundle_version: Literal[1] = BUNDLE_VERSION
    trial: Text
    condition_id: Slug
    plan_sha256: Sha256
    injection_sha256: Sha256


class NotApplicable(_Audit):
    """The audit of an arm without a memory system. It has no field for memory evidence."""

    status: Literal["not_applicable"] = "not_applicable"


class MemoryAudit(_Audit):
    """The audit of a memory-backed trial, in canonical JSON.

    `used` are injected memories that were cited, or hold a fact that the passing tests ask for, or a superseded
    value that the change holds. Citation precision: cited that hold a fact, of cited; recall: of injected that do.
    `memory_helped`: resolved with an unbroken contract, and the same cell without memory was not; `memory_hurt` the
    reverse; null without such a cell. `resolved` is the verdict's alone. `plan_sha256` is the run's plan, `context_plan_sha256` what was chosen from what under which budget.
    """

    status: Literal["verified", "contract_failure"]
    candidates: tuple[AuditCandidate, ...]
    selected: tuple[Slug, ...]
    dropped: tuple[AuditDrop, ...]
    budget: AuditBudget
    facts: tuple[AuditFact, ...]
    stale_followed: tuple[Slug, ...]
    injected: tuple[Slug, ...]
    cited: tuple[Slug, ...]
    used: tuple[Slug, ...]
    counts: AuditCounts
    citation_precision: Count
    citation_recall: Count
    resolved: bool
    memory_helped: bool | None
    memory_hurt: bool | None
    truncation_reason: DropReason | None
    degraded_mode: tuple[Text, ...]
    runtime_contract_failure: bool
    runtime_contract_failure_reason: Text | None
    injected_text_sha256: Sha256
    prompt_sha256: Sha256
    context_plan_sha256: Sha256
    audit_sha256: Sha256
    binding_sha256: Sha256

    @model_validator(mode="after")
    def _failure_has_a_reason(self) -> Self:
        broken = self.runtime_contract_failure
        if broken != (self.runtime_contract_failure_reason is not None):
            raise ValueError("a reason is given for a contract failure and for nothing else")
        if broken != (self.status == "contract_failure"):
            raise ValueError("status contract_failure is given exactly for a contract failure")
        return self


AnyAudit = MemoryAudit | NotApplicable
_AUDIT: TypeAdapter[AnyAudit] = TypeAdapter(Annotated[AnyAudit, Field(discriminator="status")])
HASHES: Final = ("context_plan_sha256", "audit_sha256", "binding_sha256")


def audit_schema() -> dict[str, object]:
    """Returns the JSON Schema of an audit."""
    return _AUDIT.json_schema()


def parse_audit(data: bytes, *, where: str) -> AnyAudit:
    """Parses an audit: versions first, then every field of that version and no other.

    Raises:
        DocumentError: not canonical JSON, an unsupported version, an unknown field, or a contradiction.
    """
    value = parse_json(data, where=where)
    versions = (
        (value.get("plan_version"), value.get("bundle_version"))
        if isinstance(value, dict)
        else (None, None)
    )
    if versions not in SUPPORTED:
        raise DocumentError(
            "memory-audit-version",
            f"{where}: expected plan and bundle version {sorted(SUPPORTED)}, found {versions}",
            hint="verify it with the memtrial that wrote it",
        )
    audit = parse_one_of(_AUDIT, data, where=where, what="memory audit", schema="memory-audit")
    require_canonical(audit, data, where=where, what="memory audit")
    return audit


def told_failure(failure: ContractFailure) -> str:
    """Returns the words in which an audit gives a broken contract."""
    return f"{failure.step.value}: {failure.kind}: {failure.rule}: {failure.detail}"


def counts_of(audit: MemoryAudit) -> tuple[AuditCounts, Count, Count]:
    """Derives counts, citation precision and citation recall from the entries of an audit."""
    relevant = {c.memory_id for c in audit.candidates if c.facts}
    stale = {c.memory_id for c in audit.candidates if c.stale_facts}
    injected, cited, used = set(audit.injected), set(audit.cited), set(audit.used)
    counts = AuditCounts(
        candidates=len(audit.candidates),
        selected=len(audit.selected),
        dropped=len(audit.dropped),
        injected=len(injected),
        cited=len(cited),
        used=len(used),
        stale_used=len(used & stale),
        irrelevant_injected=len(injected - relevant),
        missing_relevant=sum(not fact.delivered for fact in audit.facts),
    )
    hits = len(cited & relevant & injected)
    return (
        counts,
        Count(passed=hits, of=len(cited)),
        Count(passed=hits, of=len(injected & relevant)),
    )


def hashes_of(audit: MemoryAudit) -> dict[str, str]:
    """Recomputes the three hashes of an audit.

    The context plan covers what was chosen from what; the audit hash all fields but the hashes; the binding
    both of them, the run's plan, the trial, and the bytes that went to the agent, under its own domain.
    """
    fields = audit.model_dump(mode="json")
    chosen = {name: fields[name] for name in ("candidates", "selected", "dropped", "budget")}
    plan = digest_sha256(chosen)
    body = digest_sha256({name: value for name, value in fields.items() if name not in HASHES})
    bound = {
        "audit_sha256": body,
        "context_plan_sha256": plan,
        "injected_text_sha256": audit.injected_text_sha256,
        "plan_sha256": audit.plan_sha256,
        "prompt_sha256": audit.prompt_sha256,
        "trial": audit.trial,
    }
    return {
        "context_plan_sha256": plan,
        "audit_sha256": body,
        "binding_sha256": sha256_hex(BINDING_DOMAIN + canonical_bytes(bound)),
    }

"""The list of published documents and their JSON Schemas; `schemas/` is written from here."""

from __future__ import annotations

import json

from pydantic import BaseModel

from orchestrator.model import (
    agentreport,
    agents,
    approval,
    attack,
    bundle,
    condition,
    curation,
    exchange,
    gate,
    gateway,
    hooks,
    images,
    isolation,
    lifecycle,
    memory,
    memory_audit,
    nonce,
    plan,
    products,
    proof,
    record,
    report,
    review,
    roles,
    script,
    source,
    statement,
    task,
    trace,
    transcript,
    usage,
    validation,
    verdict,
)
from orchestrator.model.base import schema_name

PUBLISHED: tuple[type[BaseModel], ...] = (
    approval.LocalApproval,
    approval.ManyEnvelope,
    approval.OfficialApproval,
    approval.SmokeApproval,
    approval.Withdrawal,
    agentreport.AgentCheck,
    agentreport.AgentsReport,
    agents.AgentRecipe,
    agents.CommandAgent,
    attack.AttackCard,
    attack.AttackReport,
    bundle.BundleCard,
    bundle.ConsistencyProof,
    bundle.TrialProofs,
    bundle.TrialRecordCard,
    bundle.TrustedKeys,
    bundle.Withheld,
    condition.AddedConditions,
    condition.ConditionRegistry,
    curation.CurationSitting,
    exchange.SpendLine,
    exchange.TrafficLine,
    gate.GateConfig,
    gate.GateReport,
    gate.Manifest,
    gate.RootSeen,
    gate.SupervisorAnswer,
    gateway.GatewaySetup,
    gateway.LiveSetup,
    gateway.ReplayReport,
    gateway.Traffic,
    hooks.HookProgram,
    images.ImageLock,
    isolation.DeclaredInventory,
    isolation.Inventory,
    isolation.Isolation,
    isolation.LayerScan,
    isolation.Screening,
    lifecycle.CaptureReport,
    lifecycle.CaptureReports,
    lifecycle.CompiledContext,
    lifecycle.Description,
    lifecycle.ExtractionReport,
    lifecycle.FrozenStore,
    lifecycle.GoldFacts,
    lifecycle.Query,
    lifecycle.Ranked,
    lifecycle.Session,
    lifecycle.Snapshot,
    lifecycle.StoreDump,
    memory.Injection,
    memory.Remembered,
    nonce.NonceHead,
    nonce.NonceLine,
    plan.Plan,
    products.ProductRecipe,
    proof.InjectionProof,
    record.LedgerEntry,
    record.Prepared,
    record.Sealed,
    report.RunReport,
    review.ReviewLog,
    roles.Roles,
    script.Script,
    statement.BundleSeal,
    statement.RunSummary,
    statement.TrialAccount,
    task.Brief,
    task.History,
    task.KeyCard,
    task.PassToPassList,
    task.RehearsalCard,
    task.TaskCard,
    trace.MemoryTrace,
    transcript.ReaderMetrics,
    transcript.Transcript,
    usage.PriceTable,
    validation.ValidationReport,
    verdict.Acted,
    verdict.Harvest,
    verdict.Seal,
    verdict.TestReport,
    verdict.Verdict,
)


def schema_files() -> dict[str, bytes]:
    """Returns the file name and bytes of every published schema."""
    schemas = {schema_name(document): document.model_json_schema() for document in PUBLISHED}
    schemas["source"] = source.SOURCE.json_schema()
    schemas["memory-audit"] = memory_audit.audit_schema()
    schemas["curator-log"] = curation.CURATOR_LOG.json_schema()
    return {
        f"{name}.json": (
            json.dumps(schema, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
        ).encode()
        for name, schema in schemas.items()
    }

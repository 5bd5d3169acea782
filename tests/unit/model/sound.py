"""Small sound documents, one of each kind that can contradict itself; tests change one field."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from orchestrator.model import (
    agents,
    approval,
    attribution,
    bundle,
    condition,
    gate,
    gateway,
    hooks,
    lifecycle,
    materials,
    memory,
    products,
    record,
    review,
    roles,
    script,
    task,
    trace,
    usage,
    verdict,
)

SHA, GIT = "a" * 64, "c" * 40
AT, LATER = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
ABLE = {"timestamps": True, "update": True, "delete": True, "scopes": True}
FAILURE = {"step": "ingest", "kind": "crashed", "rule": "r", "detail": "d"}
AT_CLOSE = {**FAILURE, "step": "close"}
BUDGET = {"unit": "o200k_base", "max_tokens": 10}


def event(number: int, **changes: Any) -> dict[str, Any]:
    return {"event_id": f"e{number}", "at": AT, "role": "user", "text": "t", **changes}


def memory_of(name: str) -> dict[str, Any]:
    return {"memory_id": name, "kind": "fact", "text": "t", "scope": "s", "status": "active"}


def price(model: str) -> dict[str, Any]:
    rates = dict.fromkeys(("input", "cache_read", "cache_write", "cache_write_1h", "output"), 1)
    return {"model": model, "apis": ["chat"], "max_output_tokens": 1, **rates}


def candidate(name: str, **changes: Any) -> dict[str, Any]:
    told = {"kind": "fact", "text": "t", "scope": "s", "evidence_event_ids": [], "rule": "r"}
    return {"candidate_id": name, **told, "decision": "hold", **changes}


def tally(expected: int = 1, passed: int = 1) -> dict[str, Any]:
    return {"expected": expected, "passed": passed}


PRICES = {"dated": "2026-01-01", "source": "s", "models": [price("m")]}
CAPS = {f"per_{of}_usd_micros": 1 for of in ("call", "trial", "condition", "run")}
KEY = {"keyid": SHA, "public_key": "YQ=="}
ROLE = {"threshold": 1, "keys": [{"keyid": SHA, "public_key": "A" * 43 + "="}]}
ROLES = {"approver": ROLE, "curator": ROLE, "ledger": ROLE, "supervisor": ROLE}
TEST = {"id": "t::a", "group": "memory"}
CARD: dict[str, Any] = {
    "task_id": "t",
    "hidden_files": [{"path": "a.py"}],
    "fail_to_pass": [TEST],
    "gold_facts": [
        {
            "id": "g",
            "kind": "coined",
            "statement": "s",
            "supporting_event_ids": ["e"],
            "matchers": ["m"],
        }
    ],
    "relevant_files": ["a.py"],
}
VERDICT: dict[str, Any] = {
    "task_id": "t",
    "condition_id": "c",
    "agent": "a",
    "epoch": 1,
    "tree": GIT,
    "diff_sha256": SHA,
    "injection_sha256": SHA,
    "within_limits": True,
    "compiled": True,
    **dict.fromkeys(("fail_to_pass_capability", "fail_to_pass_memory", "pass_to_pass"), tally()),
    "reports_ok": True,
    "paths_ok": True,
    "patterns_ok": True,
    "violations": [],
    "resolved": True,
    "failure_reason": None,
    "facts_delivered": [],
    "facts_missing": [],
    "diagnostic": True,
}
SOUND: dict[str, tuple[type[BaseModel], dict[str, Any]]] = {
    "command": (
        agents.CommandAgent,
        {
            "agent": "a",
            "argv": ["run", "{model}"],
            "environment": [["T", "{token}"]],
            "model": "m",
            "api": "chat",
            "tool": "shell",
            "argument": "command",
        },
    ),
    "window": (approval.Window, {"not_before_s": 1, "expires_s": 2}),
    "charge": (attribution.Charge, {"to": "not_memory", "evidence": ["e"]}),
    "withheld": (
        bundle.Withheld,
        {"files": [{"path": "a", "sha256": SHA}, {"path": "b", "sha256": SHA}]},
    ),
    "trusted": (
        bundle.TrustedKeys,
        {"keys": [{**KEY, "valid_from": AT, "valid_until": LATER}]},
    ),
    "arm": (
        condition.Condition,
        {"id": "c", "role": "primary", "summary": "s", "adapter": "x", "budget": BUDGET},
    ),
    "link": (gate.ManifestLink, {"path": "lib/a", "target": "../b"}),
    "manifest": (
        gate.Manifest,
        {"files": [{"path": name, "bytes": 1, "sha256": SHA} for name in "ab"]},
    ),
    "live": (
        gateway.LivePin,
        {
            "standing": "directional",
            "model": "m",
            "prices": PRICES,
            "caps": CAPS,
            "upstream": {"provider": "openai", "origin": "https://api.example.org"},
        },
    ),
    "hooks": (
        hooks.HookProgram,
        {
            "adapter": "a",
            "version": "1",
            "capabilities": {**ABLE, "hooks": True},
            "hooks": {"SessionStart": ["run"]},
        },
    ),
    "session": (
        lifecycle.Session,
        {"session_id": "s", "scope": "s", "started_at": AT, "events": [event(1), event(2)]},
    ),
    "capture": (lifecycle.EventCapture, {"event_id": "e", "outcome": "captured"}),
    "candidate": (lifecycle.Candidate, candidate("c")),
    "extraction": (
        lifecycle.ExtractionReport,
        {"extractor": None, "candidates": [candidate("c"), candidate("d")]},
    ),
    "dump": (
        lifecycle.StoreDump,
        {
            "memories": [memory_of("a"), memory_of("b")],
            "links": [{"kind": "refines", "from_id": "a", "to_id": "b"}],
        },
    ),
    "ranked": (
        lifecycle.Ranked,
        {
            "query_sha256": SHA,
            "considered": 2,
            "items": [{"memory_id": name, "text": "t"} for name in "ab"],
        },
    ),
    "materials": (
        materials.Materials,
        {
            "environment": [
                {"name": n, "version": "1", "licence": None, "record_sha256": SHA} for n in "ab"
            ],
            "recipes": [{"path": "a", "sha256": SHA}],
        },
    ),
    "injection": (
        memory.Injection,
        {
            "condition_id": "c",
            "channel": "prompt_prefix",
            "text": "",
            "text_sha256": SHA,
            "unit": "o200k_base",
            "tokens": 1,
            "max_tokens": 1,
            "included": [],
            "dropped": [],
            "prompt_sha256": SHA,
        },
    ),
    "product": (
        products.ProductRecipe,
        {
            "product": "p",
            "architecture": "amd64",
            "package": "p",
            "version": "1",
            "licence": "MIT",
            "site": "lib",
            "wheels": [{"project": "p", "version": "1", "filename": "p.whl", "sha256": SHA}],
        },
    ),
    "ended": (
        record.AttemptEnded,
        {
            "trial": "t",
            "attempt": 1,
            "outcome": "completed",
            "verdict_sha256": SHA,
            "error_reference": None,
            "error": None,
            "wall_ms": 1,
            "container_ms": 1,
        },
    ),
    "review": (
        review.ReviewLog,
        {
            "condition_id": "c",
            "adapter": "a",
            "variant": None,
            "sessions_sha256": SHA,
            "dump_sha256": SHA,
            "reviewer_kind": "human",
            "reviewer": "r",
            "held": 1,
            "seconds_total": 2,
            "entries": [
                {
                    "candidate_id": "c",
                    "text_sha256": SHA,
                    "evidence_event_ids": [],
                    "action": "promote",
                    "seconds_spent": 2,
                    "decided_at": AT,
                }
            ],
        },
    ),
    "rule": (roles.RoleRule, ROLE),
    "roles": (roles.Roles, {"name": "n", "kind": "organisation", "roles": ROLES}),
    "call": (script.ScriptedCall, {"name": "n", "arguments": "{}"}),
    "vectors": (script.ScriptedEmbeddings, {"kind": "hash", "dimensions": 8}),
    "card": (
        task.TaskCard,
        {
            "id": "t",
            "title": "t",
            "suite": "coding-v1",
            "smoke": True,
            "created_on": "2026-01-01",
            "calibration": "unmeasured",
            "source": "s",
            "language": "python",
            "category": "negative_constraints",
            "runner": {
                "kind": "pytest",
                "source_roots": ["."],
                "test_paths": ["."],
                "timeout_s": 1,
            },
        },
    ),
    "limits": (
        task.Limits,
        {
            "wall_s": 1,
            "cpus_milli": 100,
            "memory_bytes": 64 * 1024**2,
            "pids": 16,
            "work_bytes": 1024**2,
            "work_inodes": 64,
            "output_bytes": 1024,
            "diff_bytes": 1024,
        },
    ),
    "event": (task.Event, event(1)),
    "history": (
        task.History,
        {
            "task_id": "t",
            "episodes": [{"episode_id": "p", "started_at": AT, "events": [event(1), event(2)]}],
        },
    ),
    "pattern": (task.PatchPattern, {"id": "p", "pattern": "a+", "why": "w"}),
    "key": (task.KeyCard, CARD),
    "suite": (
        task.PassToPassList,
        {"task_id": "t", "pass_to_pass": [{"id": "a"}], "apart": ["a"]},
    ),
    "trace": (
        trace.MemoryTrace,
        {
            "trial": "t",
            "remembered_sha256": SHA,
            "injection_sha256": SHA,
            "key_sha256": SHA,
            "information": "raw",
            "shows": [],
            "extracts": True,
            "k": 1,
            "ranked": 0,
            "clusters": 0,
            "facts": [],
            "stale_included": [],
            "stale_followed": [],
            "cited": [],
        },
    ),
    "prices": (usage.PriceTable, PRICES),
    "tests": (
        verdict.TestReport,
        {
            "runner": "pytest",
            "phase": "pass_to_pass",
            "compiled": True,
            "timed_out": False,
            "exit_code": 0,
            "tests": [{"id": name, "status": "pass", "n": 1} for name in "ab"],
        },
    ),
    "verdict": (verdict.Verdict, VERDICT),
}

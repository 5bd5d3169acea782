"""Promise: what a document says of itself follows from what is written in it, and from nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from orchestrator.core.canonical import canonical_bytes, sha256_hex
from orchestrator.core.errors import ApprovalRefused
from orchestrator.core.strictjson import MAX_BYTES
from orchestrator.model import agentreport, attack, imported, publishers, schemas
from orchestrator.model.approval import ManyEnvelope
from orchestrator.model.condition import AddedConditions, Condition, ConditionRegistry
from orchestrator.model.curation import CurationBudget
from orchestrator.model.gateway import ReplayedTrial
from orchestrator.model.lifecycle import Description
from orchestrator.model.memory import Injection
from orchestrator.model.memory_audit import NotApplicable, audit_schema
from orchestrator.model.outcome import Outcome, outcome_of_trial
from orchestrator.model.permit import Permit
from orchestrator.model.proof import Foreign, InjectionProof, Rest, short
from orchestrator.model.record import AttemptEnded, RunStarted
from orchestrator.model.report import ROW_BYTES, report_bytes
from orchestrator.model.resources import Resources, add_up
from orchestrator.model.review import ReviewLog
from orchestrator.model.script import ScriptedCall
from orchestrator.model.statement import STATEMENT_TYPE, Envelope, Resource, Signature, Statement
from orchestrator.model.symmetry import unequal_budgets
from orchestrator.model.toolcalls import ToolLog, given_ids
from orchestrator.model.trace import MemoryTrace, contract_status
from orchestrator.model.usage import ModelPrice, Usage
from orchestrator.model.verdict import Acted, Verdict
from orchestrator.model.verification import Verification
from tests.unit.model.sound import ABLE, SHA, SOUND, VERDICT, price

OTHER = "b" * 64


def read(name: str, **changes: Any) -> Any:
    of, fields = SOUND[name]
    return of.model_validate_json(json.dumps({**fields, **changes}))


@pytest.mark.parametrize(
    ("information", "status"),
    [
        ("raw", "verified"),
        ("gold", "verified"),
        ("curated", "not_applicable"),
        ("none", "not_applicable"),
        (None, "not_applicable"),
    ],
)
def test_only_a_system_that_learns_from_sessions_or_facts_has_a_contract(information, status):
    assert contract_status(None, information) == status
    trace = read("trace", information=information)
    assert isinstance(trace, MemoryTrace)
    assert (trace.status, trace.applies) == (status, status != "not_applicable")


def test_an_arm_has_the_stages_that_are_named_or_all():
    assert read("trace").has("capture")
    assert read("trace", stages=["retrieval"]).has("retrieval")
    assert not read("trace", stages=["retrieval"]).has("capture")


def test_a_system_that_learns_from_nothing_stores_nothing():
    said = {"adapter": "a", "version": "1", "capabilities": ABLE, "shows": []}
    stores = {
        information: Description.model_validate_json(
            json.dumps({**said, "information": information})
        ).stores
        for information in ("none", "raw", "gold")
    }
    assert stores == {"none": False, "raw": True, "gold": True}


ACTED = {
    "agent": "a",
    "exit_code": 0,
    "wall_ms": 1,
    "output_bytes": 0,
    "output_truncated": False,
    "output_sha256": SHA,
}
FAILED = {**VERDICT, "resolved": False, "compiled": False}


@pytest.mark.parametrize(
    ("ended", "reason", "outcome"),
    [
        (None, "compile_failure", Outcome.COMPLETED),
        ("exited", "compile_failure", Outcome.COMPLETED),
        ("output_limit", "compile_failure", Outcome.BUDGET),
        ("tool_budget", "compile_failure", Outcome.BUDGET),
        ("oom_killed", "timeout", Outcome.BUDGET),
        ("model_budget", "compile_failure", Outcome.BUDGET),
        ("time_limit", "compile_failure", Outcome.TIMEOUT),
        ("exited", "timeout", Outcome.TIMEOUT),
    ],
)
def test_an_attempt_with_a_verdict_ended_as_its_agent_did(ended, reason, outcome):
    fields = {name: value for name, value in ACTED.items() if name in Acted.model_fields}
    acted = None if ended is None else Acted.model_validate({**fields, "ended": ended})
    verdict = Verdict.model_validate_json(json.dumps({**FAILED, "failure_reason": reason}))
    assert outcome_of_trial(acted, verdict) is outcome


def test_misconduct_comes_before_any_other_end():
    seen = [{"rule": "misconduct", "subject": "s", "detail": "d"}]
    verdict = Verdict.model_validate_json(
        json.dumps({**FAILED, "failure_reason": "timeout", "violations": seen})
    )
    assert outcome_of_trial(None, verdict) is Outcome.MISCONDUCT


def test_a_trial_is_over_with_its_verdict_or_when_its_block_is_dropped():
    ended = {
        outcome: read("ended", outcome=outcome, verdict_sha256=SHA if graded else None).final
        for outcome, graded in (
            ("completed", True),
            ("inadmissible", False),
            ("infra_error", False),
        )
    }
    assert ended == {"completed": True, "inadmissible": True, "infra_error": False}
    assert isinstance(read("ended"), AttemptEnded)


def started(**changes: Any) -> RunStarted:
    return RunStarted(run_id="r", plan_sha256=SHA, engine="e", workers=1, **changes)


def test_a_record_without_the_program_has_the_bytes_of_one_that_knew_of_none():
    assert "program_sha256" not in json.loads(started().canonical())
    assert json.loads(started(program_sha256=SHA).canonical())["program_sha256"] == SHA


def test_usage_is_added_class_by_class():
    one = Usage(input=1, cache_read=2, cache_write=3, cache_write_1h=4, output=5, reasoning=6)
    assert one.plus(one) == Usage(
        input=2, cache_read=4, cache_write=6, cache_write_1h=8, output=10, reasoning=12
    )
    assert one.all_input == 10


def test_the_dearest_input_is_the_highest_price_of_any_class():
    for name in ("input", "cache_read", "cache_write", "cache_write_1h"):
        table = ModelPrice.model_validate_json(json.dumps({**price("m"), name: 7}))
        assert table.dearest_input == 7


def test_only_arms_that_are_compared_must_have_one_budget():
    def arm(name: str, tokens: int, role: str) -> Condition:
        budget = {"unit": "o200k_base", "max_tokens": tokens}
        made: Condition = read("arm", id=name, budget=budget, role=role)
        return made

    assert unequal_budgets((arm("a", 1, "primary"), arm("b", 2, "diagnostic"))) is None
    found = unequal_budgets((arm("a", 1, "primary"), arm("b", 2, "control")))
    assert found is not None
    assert "1 under a, 2 under b" in found


def test_the_stages_of_an_arm_are_those_of_the_registry():
    _, fields = SOUND["arm"]
    told = {"conditions": [{**fields, "stages": ["capture"]}]}
    known = {"failure_stages": [{"stage": "capture", "failures": ["f"]}]}
    read_registry = ConditionRegistry.model_validate_json(json.dumps({**told, **known}))
    assert read_registry.conditions[0].stages == ("capture",)
    with pytest.raises(
        ValidationError, match="c: expected stages of failure_stages, found capture"
    ):
        ConditionRegistry.model_validate_json(json.dumps(told))


@pytest.mark.parametrize("name", ["claim_bearing", "standard"])
def test_an_added_arm_bears_no_claim(name):
    _, fields = SOUND["arm"]
    added = AddedConditions.model_validate_json(json.dumps({"conditions": [fields]}))
    assert [one.id for one in added.conditions] == ["c"]
    with pytest.raises(ValidationError, match="neither standard nor claim_bearing"):
        AddedConditions.model_validate_json(json.dumps({"conditions": [{**fields, name: True}]}))


def test_minutes_of_an_episode_are_milliseconds():
    assert CurationBudget(minutes_per_episode=1.5, max_chars=1).episode_ms == 90_000


@pytest.mark.parametrize(("replayed", "same"), [(SHA, True), (OTHER, False), (None, False)])
def test_a_replay_is_the_same_when_its_verdict_is(replayed, same):
    fields: dict[str, Any] = {
        name: 0 if field.annotation is int else "t"
        for name, field in ReplayedTrial.model_fields.items()
    }
    fields |= {"divergence": None, "recorded_verdict_sha256": SHA}
    found = ReplayedTrial.model_validate({**fields, "replayed_verdict_sha256": replayed})
    assert found.same is same


def test_nobody_makes_a_permit_but_the_gate():
    with pytest.raises(ApprovalRefused) as refused:
        Permit()
    assert refused.value.reference == "permit-not-issued"


def test_a_long_name_is_told_by_its_beginning_and_digest():
    assert short("n" * 120) == "n" * 120
    text = "n" * 121
    assert short(text) == f"{'n' * 20}... of 121 characters, sha256 {sha256_hex(text.encode())}"


def test_what_a_list_left_out_is_counted_and_digested():
    assert Rest.of([]) is None
    sign = Foreign(ordinal=1, pointer="/a", sign="s")
    rest = Rest.of([sign, "plain"])
    assert rest is not None
    assert (rest.count, rest.sha256) == (
        2,
        sha256_hex(canonical_bytes([sign.model_dump(mode="json"), "plain"])),
    )
    assert sign.told == "call 1, /a: s"


def measured(**changes: Any) -> Resources:
    fields = dict.fromkeys(
        name for name, field in Resources.model_fields.items() if field.is_required()
    )
    return Resources.model_construct(**{**dict.fromkeys(fields, 0), **changes})


def test_an_arms_figures_are_sums_and_peaks_of_its_attempts():
    figures = add_up(
        [
            measured(memory_peak_bytes=5, cpu_ms=1, throttled_ms=2, oom_kills=1, work_bytes=None),
            measured(memory_peak_bytes=3, cpu_ms=4, throttled_ms=0, oom_kills=0, work_bytes=7),
        ]
    )
    assert (figures.measured, figures.memory_peak_bytes, figures.cpu_ms) == (2, 5, 5)
    assert (figures.throttled_attempts, figures.oom_attempts, figures.work_bytes_max) == (1, 1, 7)


def test_an_arm_without_attempts_has_no_figures():
    assert (add_up([]).measured, add_up([]).memory_peak_bytes) == (0, 0)


def test_a_plan_pins_a_review_by_its_bytes():
    log = read("review", held=3)
    assert isinstance(log, ReviewLog)
    pin, used = log.pin("c", "t"), log.used()
    assert (pin.log_sha256, pin.held, pin.resolved, pin.seconds_spent) == (
        log.digest_sha256(),
        3,
        1,
        2,
    )
    assert (used.log_sha256, used.resolved, used.open) == (log.digest_sha256(), 1, 2)


def test_the_call_of_a_custom_tool_is_free_text():
    assert ScriptedCall(name="n", arguments="not json", custom=True).arguments == "not json"


def test_an_envelope_has_the_formats_own_names():
    made = Envelope(
        payload="YQ==", payload_type="t", signatures=(Signature(keyid=SHA, sig="YQ=="),)
    )
    assert set(json.loads(made.canonical())) == {"payload", "payloadType", "signatures"}


def test_an_approvals_envelope_has_the_formats_own_names():
    signature = {"keyid": SHA, "sig": "A" * 86 + "=="}
    fields = {"payload": "YQ==", "payloadType": "a/b", "signatures": [signature]}
    made = ManyEnvelope.model_validate_json(json.dumps(fields))
    assert json.loads(made.canonical()) == fields


def test_a_statement_is_signed_over_the_formats_own_names():
    resource = {"name": "a", "digest": {"sha256": SHA}}
    fields: dict[str, Any] = {
        "subject": (Resource.model_validate_json(json.dumps(resource)),),
        "predicate_type": "p",
        "predicate": NotApplicable(
            trial="t", condition_id="c", plan_sha256=SHA, injection_sha256=SHA
        ),
    }
    made = json.loads(Statement.model_construct(**fields).payload())
    assert (made["_type"], made["predicateType"]) == (STATEMENT_TYPE, "p")
    assert (made["subject"], made["predicate"]["trial"]) == ([resource], "t")


@pytest.mark.parametrize(
    ("result", "blame", "holds"),
    [
        *((result, None, True) for result in ("shown", "served", "absent", "no_call")),
        *((result, None, False) for result in ("lost", "foreign", "dropped", "unconnected")),
        *(("dropped", blame, True) for blame in ("arm", "agent")),
        ("dropped", "harness", False),
    ],
)
def test_the_harness_kept_its_promise_where_the_loss_was_not_its_own(result, blame, holds):
    fields: dict[str, Any] = {"result": result, "blame": blame}
    assert InjectionProof.model_construct(**fields).holds is holds


def test_an_agent_was_given_what_stood_in_its_prompt_or_in_an_answer():
    injection = Injection.model_validate_json(
        json.dumps({**SOUND["injection"][1], "included": [{"item_id": "m1", "tokens": 1}]})
    )
    call = {"seq": 0, "tool": "t", "arguments": "", "item_ids": ["m2"], "text": ""}
    log = ToolLog.model_validate_json(
        json.dumps(
            {
                "server": "s",
                "adapter": "a",
                "tools": [],
                "connected": 1,
                "listed": 1,
                "calls": [call],
                "refused": 0,
            }
        )
    )
    assert given_ids(injection, None) == {"m1"}
    assert given_ids(injection, log) == {"m1", "m2"}


def test_a_verification_names_what_said_no():
    def check(number: int, status: str) -> dict[str, Any]:
        told = {"number": number, "name": "n", "status": status, "count": 0, "detail": ""}
        return {**told, "reference": None, "hint": None}

    found = Verification.model_validate_json(
        json.dumps(
            {
                "bundle": "b",
                "run_id": None,
                "keyid": None,
                "key_label": None,
                "sealed_at": None,
                "standing": "refused",
                "exit_code": 6,
                "withheld": [],
                "checks": [check(1, "ok"), check(2, "failed"), check(3, "partly")],
            }
        )
    )
    assert [one.number for one in found.failed] == [2]


@pytest.mark.parametrize(
    "repository", ["http://github.com/a/b", "https://example.org/a/b", "https://github.com/a b"]
)
def test_a_publisher_is_a_repository_of_a_forge(repository):
    sound = publishers.Publishers(publishers={"a-b": "https://github.com/a/b"})
    assert publishers.Publishers.parse_canonical(sound.canonical(), where="p") == sound
    with pytest.raises(ValidationError):
        publishers.Publishers(publishers={"a-b": repository})


@pytest.mark.parametrize(
    ("document", "fields"),
    [
        (imported.ImportReport, {"kind": "harbor", "input_sha256": SHA, "tasks": [{"id": "t"}]}),
        (agentreport.AgentsReport, {"run_id": "r", "task_id": "t", "rows": [], "sound": True}),
        (
            attack.AttackReport,
            {"attacks": [], "honest_trial_ok": True, "left_behind": []},
        ),
    ],
)
def test_a_report_takes_no_field_that_nobody_knows(document, fields):
    assert document.model_validate_json(json.dumps(fields))
    with pytest.raises(ValidationError, match="extra_forbidden"):
        document.model_validate_json(json.dumps({**fields, "more": 1}))


def test_every_schema_is_closed_and_the_audits_is_among_them():
    files = schemas.schema_files()
    assert json.loads(files["memory-audit.json"])["oneOf"] == audit_schema()["oneOf"]


def test_a_report_may_grow_with_its_trials_from_what_any_document_may_have():
    assert report_bytes(0) == MAX_BYTES
    assert report_bytes(3) - report_bytes(2) == ROW_BYTES > 0

"""Promise: what models cost is in the report and under each trial's signature, and a stranger recomputes it."""

from __future__ import annotations

import base64
import json

import pytest

from orchestrator.attest import layout
from orchestrator.audit.trust import Trust
from orchestrator.audit.verify import verify_bundle
from orchestrator.audit.view import FolderView, MemoryView
from orchestrator.gateway.accounts import SPEND_FILE, TRAFFIC_FILE
from orchestrator.model.report import RunReport
from tests.evidence.conftest import NOW
from tests.played_chat import record_chat_run
from tests.recorded import seal


def bodies(sealed, name):
    return [json.loads(line)["body"] for line in sealed.files[name].splitlines()]


def account(sealed, seq):
    line = sealed.files[layout.attestation_name(seq)].splitlines()[-1]
    return json.loads(base64.b64decode(json.loads(line)["payload"]))["predicate"]


def test_every_trials_statement_carries_tokens_by_class_both_costs_and_the_served_model(chatting):
    for seq in (0, 1):
        stated = account(chatting, seq)
        mine = [b for b in bodies(chatting, TRAFFIC_FILE) if b["trial"] == stated["trial"]]
        usage = stated["usage"]
        assert usage["calls"] == len(mine) == 3
        assert usage["cost"]["usd_micros"] == sum(b["cost"]["usd_micros"] for b in mine) > 0
        assert usage["cost"]["uncached_usd_micros"] >= usage["cost"]["usd_micros"]
        for kind in ("input", "cache_read", "cache_write", "output", "reasoning"):
            assert usage["usage"][kind] == sum(b["usage"][kind] for b in mine)
        (served,) = usage["served"]
        assert (served["asked"], served["served"], served["calls"]) == ("scripted-1",) * 2 + (3,)


def test_the_report_adds_up_to_the_spend_book_by_trial_arm_condition_and_run(chatting):
    report = RunReport.parse(chatting.files[layout.REPORT], where="report")
    book = [b for b in bodies(chatting, SPEND_FILE) if b["kind"] == "settled"]
    total = sum(b["usd_micros"] for b in book)
    assert report.spending is not None
    assert report.spending.total.cost.usd_micros == total > 0
    assert sum(c.cost.usd_micros for c in report.spending.conditions) == total
    assert sum(t.spending.cost.usd_micros for t in report.trials if t.spending) == total
    assert sum(a.spending.total.cost.usd_micros for a in report.arms if a.spending) == total
    assert report.spending.caps.per_trial_usd_micros >= max(
        a.spending.dearest_trial_usd_micros for a in report.arms if a.spending
    )


def test_the_report_in_words_names_costs_caps_and_whether_the_agents_figures_agree(chatting):
    text = chatting.files[layout.REPORT_TEXT].decode()
    assert "prices of 2026-11-30; the spend book decides" in text
    assert "chat under no_memory: 3 calls" in text
    assert "caps, equal in every arm: 50.000000 USD a call" in text
    assert "the agent's own figures agree in 1 trial" in text


def test_verification_recomputes_the_spending_of_a_run(chatting):
    answer = verify_bundle(MemoryView(chatting.files), chatting.trust, name="chatting")
    assert answer.failed == ()
    (check,) = [c for c in answer.checks if c.name == "spending"]
    assert (check.status, check.count) == ("ok", 6)


def test_a_run_without_models_says_so(eight):
    answer = verify_bundle(MemoryView(eight.files), eight.trust, name="eight")
    (check,) = [c for c in answer.checks if c.name == "spending"]
    assert (check.status, check.detail) == ("ok", "the plan asks no model")
    assert b"Model calls" not in eight.files[layout.REPORT_TEXT]


@pytest.fixture(scope="module")
def exaggerating(tmp_path_factory):
    return record_chat_run(tmp_path_factory.mktemp("exaggerating"), exaggerates=1000)


def test_an_agent_that_says_more_than_the_gateway_saw_changes_no_sum_and_is_named(exaggerating):
    report = RunReport.parse((exaggerating / layout.REPORT).read_bytes(), where="report")
    (arm, _) = [a.spending for a in report.arms]
    assert arm is not None
    assert arm.own is not None
    assert (arm.own.trials, arm.own.differing) == (1, 1)
    assert arm.own.own.all_input == arm.own.gateway.all_input + 1000
    assert arm.total.usage == arm.own.gateway
    assert "the agent's own figures differ in 1 of 1 trial" in (
        exaggerating / layout.REPORT_TEXT
    ).read_text(encoding="utf-8")


def test_a_record_whose_last_exchange_died_with_its_process_counts_the_call_in_full(
    tmp_path, chatting
):
    """The spend book is the authority: its call stays, and report and verification say that it stands alone."""
    import shutil

    from tests.recorded import write_reports

    folder = tmp_path / "run"
    shutil.copytree(chatting.folder, folder)
    path = folder / TRAFFIC_FILE
    lines = path.read_bytes().splitlines(keepends=True)
    # The last line is the last exchange of the last trial; its attempt's own account names it.
    path.write_bytes(b"".join(lines[:-1]) + lines[-1][:40])
    report = write_reports(folder)
    assert report.spending is not None
    assert report.spending.total.unrecorded == 1
    assert report.spending.torn_bytes == 40
    assert report.spending.total.calls == 6
    sealed = seal(folder)
    answer = verify_bundle(FolderView(folder), Trust(now=NOW, keyid=sealed.keyid), name="cut")
    assert [c.reference for c in answer.failed] == ["traffic-differs"]

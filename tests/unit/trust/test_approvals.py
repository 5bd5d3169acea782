"""Promise: a person reads in plain words what a signature would allow, and cannot sign what makes no sense."""

from __future__ import annotations

import pytest

from orchestrator.core.clock import utc_text_of
from orchestrator.core.errors import ApprovalRefused, UsageError
from orchestrator.model.approval import GOVERNED, Window
from orchestrator.trust.approvals import (
    approval_in_words,
    calling_roles,
    draft_local,
    in_plain_words,
    live_pin,
    usd,
    usd_micros,
    window_of,
)
from tests.gate.world import smoke_plan
from tests.live import NOW_S, USD, live_plan
from tests.recorded import TINY, make_plan
from tests.unit.trust.support import as_bytes
from tests.unit.trust.test_proposals import sound

DAY = Window(not_before_s=NOW_S, expires_s=NOW_S + 86_400)


@pytest.mark.parametrize(
    ("text", "micros"),
    [("5", 5_000_000), ("2.50", 2_500_000), ("0.000001", 1), ("1000000", 10**12)],
)
def test_amounts_are_whole_micro_dollars(text, micros):
    assert usd_micros(text, option="--max-usd") == micros


@pytest.mark.parametrize(
    "text",
    [
        "0",
        "-1",
        "+1",
        "1e3",
        "0.0000001",
        "1000001",
        "",
        ".",
        "five",
        "1,5",
        "\u0665",
        "9" * 21,
        "1.2.3",
    ],
)
def test_no_other_text_is_an_amount(text):
    with pytest.raises(UsageError, match="--max-usd"):
        usd_micros(text, option="--max-usd")


def test_amounts_are_shown_as_dollars():
    assert [usd(m) for m in (1, 10_000, 2_500_000, 5_000_000, 1_234_567_890_000)] == [
        "0.000001 USD",
        "0.01 USD",
        "2.50 USD",
        "5.00 USD",
        "1,234,567.89 USD",
    ]


@pytest.mark.parametrize("hours", [0, -1, 337])
def test_a_window_is_an_hour_to_fourteen_days(hours):
    for good in (1, 336):
        window = window_of(NOW_S, good)
        assert (window.not_before_s, window.expires_s) == (NOW_S, NOW_S + good * 3600)
    with pytest.raises(UsageError, match="336"):
        window_of(NOW_S, hours)


def test_a_plan_that_calls_nobody_needs_no_approval():
    with pytest.raises(ApprovalRefused, match="needs no approval"):
        live_pin(make_plan(TINY))


def test_nobody_approves_alone_for_more_than_local_or_less_than_the_plan_may_spend():
    smoke = live_plan(phase="smoke", namespace="smoke-one")
    with pytest.raises(ApprovalRefused) as refused:
        draft_local(smoke, root_sha256="0" * 64, max_usd_micros=5 * USD, window=DAY)
    assert refused.value.reference == "phase-not-local"
    with pytest.raises(ApprovalRefused) as refused:
        draft_local(live_plan(), root_sha256="0" * 64, max_usd_micros=5 * USD - 1, window=DAY)
    assert refused.value.reference == "cap-above-approval"
    drafts = [
        draft_local(live_plan(), root_sha256="0" * 64, max_usd_micros=5 * USD, window=DAY)
        for _ in range(2)
    ]
    assert drafts[0].nonce != drafts[1].nonce
    assert drafts[0].plan_sha256 == live_plan().digest_sha256()


def test_the_words_say_how_much_where_and_until_when():
    words = "\n".join(in_plain_words(live_plan(), max_usd_micros=9 * USD, window=DAY))
    for said in (
        "trials    2 (1 task x 2 arms x 1 agent x 1 epoch), each at most 3 times",
        "model     model-1, 3.00 USD in and 15.00 USD out",
        "calls to  http://127.0.0.1:9 (openai)",
        "at most 5.00 USD in all",
        "no claim may rest on it",
        f"plan      sha256 {live_plan().digest_sha256()}",
    ):
        assert said in words


def test_an_approval_says_all_of_its_bounds():
    approval = GOVERNED.validate_json(as_bytes(sound()))
    words = "\n".join(approval_in_words(approval, smoke_plan()))
    for said in (
        "one run   phase smoke, namespace smoke-one, 1 epoch of the smoke set: directional",
        "trials    2 (1 task x 2 arms x 1 agent x 1 epoch), each at most 3 times",
        "tasks     depotfeed-returns",
        "arms      no_memory, curated_file_budgeted",
        "agent     chat, at most 6 times",
        "model     model-1, at most 240 calls by agent and memory",
        f"prices    {usd(approval.pricing.input_usd_micros_per_million)} in and {usd(approval.pricing.output_usd_micros_per_million)} out for a million tokens, of {approval.pricing.dated}",
        "tokens    at most 10,000,000 in and 1,000,000 out",
        "calls to  http://127.0.0.1:9 (openai)",
        "spending  at most 5.00 USD in all, 2.50 USD a trial",
        f"window    {utc_text_of(approval.window.not_before_s)} to {utc_text_of(approval.window.expires_s)}",
        f"key {approval.supervisor.keyid[:16]}, manifest aaaaaaaaaaaaaaaa",
        f"source    example/memtrial main, after commit {'a' * 40}",
        f"root      version 1, sha256 {approval.root.sha256}",
        f"plan      sha256 {smoke_plan().digest_sha256()}",
    ):
        assert said in words
    high = approval.runner.model_copy(update={"reasoning_effort": "high"})
    told = approval_in_words(approval.model_copy(update={"runner": high}), smoke_plan())
    assert "model-1, effort high, at most" in "\n".join(told)


def test_memory_calls_a_model_only_where_an_arm_has_memory():
    assert calling_roles(live_plan()) == ("agent", "memory")
    assert calling_roles(live_plan(conditions=("no_memory",))) == ("agent",)

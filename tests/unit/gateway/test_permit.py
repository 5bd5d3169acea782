"""Promise: without a permit there is no live gateway, and production code cannot make a permit."""

from __future__ import annotations

import ast
import asyncio
import copy
import json
import pickle
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from orchestrator.core.errors import ApprovalRefused
from orchestrator.gateway import live
from orchestrator.gateway.keys import ProviderKeys
from orchestrator.gateway.live import LiveMode
from orchestrator.gateway.modes import CannotAnswer
from orchestrator.model.permit import Permit
from orchestrator.pipeline.breaches import was_unavailable
from tests.unit.gateway.support import PLAN_SHA256, chat, mint_permit, post

ROOT = Path(__file__).resolve().parents[3]
KEYS = ProviderKeys({"anthropic": "k" * 20})


def test_the_constructor_refuses():
    with pytest.raises(ApprovalRefused, match="permit"):
        Permit()


@pytest.mark.parametrize("given", [None, True, object(), {"plan_sha256": PLAN_SHA256}])
def test_live_mode_takes_nothing_but_a_permit(given):
    with pytest.raises(ApprovalRefused):
        LiveMode(given, KEYS, plan_sha256=PLAN_SHA256)


def test_a_permit_for_another_plan_or_past_its_time_is_refused():
    with pytest.raises(ApprovalRefused, match="plan"):
        LiveMode(mint_permit(plan_sha256="b" * 64), KEYS, plan_sha256=PLAN_SHA256)
    with pytest.raises(ApprovalRefused, match="still holds"):
        LiveMode(mint_permit(not_after="2020-01-01T00:00:00Z"), KEYS, plan_sha256=PLAN_SHA256)


def test_no_try_is_sent_from_the_moment_on_at_which_the_permit_ends(provider, monkeypatch):
    """The provider is busy once; while that is waited out the clock reaches the permit's last moment."""
    end = "2040-01-01T00:00:00.000Z"
    now = ["2039-12-31T23:59:59.999Z"]
    monkeypatch.setattr(live, "utc_now_text", lambda: now[0])

    async def wait(_: float) -> None:
        now[0] = end

    async def ask() -> None:
        permit = mint_permit(("openai", provider.origin), not_after=end)
        keys = ProviderKeys({"openai": "k" * 20})
        mode = LiveMode(permit, keys, plan_sha256=PLAN_SHA256, sleep=wait)
        call: Any = SimpleNamespace(
            asked=SimpleNamespace(api="chat", model="model-1"),
            target="/v1/chat/completions",
            headers=((b"x-fake", b"busy:1"), (b"content-type", b"application/json")),
            raw=json.dumps(chat()).encode(),
        )
        try:
            with pytest.raises(CannotAnswer, match="still holds") as refused:
                await mode.answer(call)
            assert [t.status for t in refused.value.tries] == [429]
        finally:
            await mode.close()

    asyncio.run(ask())
    assert len(provider.seen) == 1


def test_a_permit_does_not_travel():
    permit = mint_permit()
    for travel in (copy.copy, copy.deepcopy, lambda p: pickle.loads(pickle.dumps(p))):
        with pytest.raises((ApprovalRefused, TypeError)):
            travel(permit)


def test_one_production_module_goes_past_the_constructor_and_it_is_the_gates_own():
    """What tests do to mint one (`object.__new__`) stands in no other module that knows the permit."""
    past, knowing = set(), 0
    for path in (ROOT / "orchestrator").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if "Permit" not in text and "permit" not in text:
            continue
        knowing += 1
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Attribute) and node.attr in {"__new__", "__reduce__"}:
                past.add(str(path.relative_to(ROOT)))
    assert past == {"orchestrator/trust/gate/issue.py"}
    assert knowing >= 2


def test_only_the_gates_own_modules_name_the_issuer():
    naming = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "orchestrator").rglob("*.py")
        if "issue_permit" in path.read_text(encoding="utf-8")
    }
    assert naming
    assert all(name.startswith("orchestrator/trust/gate/") for name in naming)


def test_calls_go_nowhere_but_to_the_origins_of_the_permit(make_live, provider):
    """The origin names a closed port: nothing reaches the provider that also listens on loopback."""
    running = make_live(origin="http://127.0.0.1:1")
    opened = running.open()
    body = {"model": "model-1", "messages": [], "max_tokens": 5}
    status, answer = post(opened, "/v1/messages", body)
    assert (status, b"could not be reached" in answer) == (503, True)
    headers = {"host": provider.origin[7:], "x-forwarded-host": provider.origin[7:]}
    assert post(opened, "/v1/messages", body, headers=headers)[0] == 503
    assert provider.seen == []


def test_no_model_is_asked_but_the_signed_one_however_well_it_is_priced(make_live, provider):
    running = make_live(models=("another-model",))
    opened = running.open()
    status, answer = post(opened, "/v1/chat/completions", chat())
    assert (status, b"expected the model that was signed, another-model" in answer) == (400, True)
    running.close_trial()
    (exchange,) = running.exchanges()
    assert (exchange.outcome, exchange.reserved_usd_micros) == ("refused_policy", 0)
    assert provider.seen == []


def test_no_provider_is_asked_but_the_signed_one(make_live, provider):
    running = make_live(providers=("openai",))
    opened = running.open()
    body = {"model": "model-1", "messages": [], "max_tokens": 5}
    status, answer = post(opened, "/v1/messages", body)
    assert (status, b"expected a provider that was signed, openai" in answer) == (400, True)
    running.close_trial()
    (exchange,) = running.exchanges()
    assert (exchange.outcome, exchange.reserved_usd_micros) == ("refused_policy", 0)
    assert provider.seen == []


def test_the_mode_itself_asks_for_nothing_else_than_was_signed():
    mode = LiveMode(mint_permit(("openai", "http://127.0.0.1:9")), KEYS, plan_sha256=PLAN_SHA256)
    for api, model in (("chat", "model-2"), ("messages", "model-1")):
        call: Any = SimpleNamespace(asked=SimpleNamespace(api=api, model=model))
        with pytest.raises(CannotAnswer, match="that was signed") as refused:
            asyncio.run(mode.answer(call))
        assert refused.value.outcome == "refused_policy"


def test_a_permit_whose_time_ends_during_the_run_is_told_apart_from_what_a_client_does(
    live, provider, monkeypatch
):
    opened = live.open()
    monkeypatch.setattr("orchestrator.gateway.live.utc_now_text", lambda: "9999-12-31T23:59:59Z")
    body = {"model": "model-1", "messages": [], "max_tokens": 5}
    assert post(opened, "/v1/messages", body)[0] == 400
    live.close_trial()
    (exchange,) = live.exchanges()
    assert (exchange.outcome, exchange.cost.usd_micros) == ("not_permitted", 0)
    assert (was_unavailable(exchange), provider.seen) == (True, [])


def test_a_redirect_is_handed_to_the_client_and_not_followed(live, provider):
    opened = live.open()
    body = {"model": "model-1", "messages": [], "max_tokens": 5}
    status, _ = post(opened, "/v1/messages", body, headers={"x-fake": "redirect"})
    assert status == 307
    assert len(provider.seen) == 1


def test_the_command_refuses_live_mode_with_the_code_of_a_refused_approval():
    finished = subprocess.run(
        [sys.executable, "-m", "orchestrator", "gateway", "--live", "--port", "0"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 5
    assert "nothing was contacted" in finished.stderr

"""Promise: `plan` says which caps leave no room and which arms are left out, and --dry-run fetches nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from orchestrator.cli.main import main
from orchestrator.sources import fetch

CHAT = ("plan", "--agent", "chat", "--task", "depotfeed-returns", "--condition", "no_memory")


def told(capsys, *words: str) -> dict[str, Any]:
    assert main([*words, "--dry-run", "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_a_cap_under_which_no_call_fits_is_told_before_money_or_time_is_spent(capsys):
    (remark,) = told(capsys, *CHAT, "--cap", "call=0.000001")["remarks"]
    assert "no call of chat fits under the cap per call, 1 micro-USD" in remark
    assert told(capsys, *CHAT, "--cap", "call=50")["remarks"] == []


def test_an_arm_that_a_plan_of_all_arms_cannot_have_is_named_with_its_channel(capsys):
    all_arms = told(
        capsys, "plan", "--agent", "noop", "--task", "depotfeed-returns", "--matrix", "all"
    )
    assert (
        "tool_presence_placebo is left out: not every agent of the plan has the channel mcp"
        in str(all_arms["remarks"])
    )
    assert told(capsys, *CHAT)["remarks"] == []


@pytest.mark.parametrize("agent", ["noop", "codex", "mini-swe-agent"])
def test_a_dry_run_fetches_nothing_and_says_which_images_it_cannot_know(
    capsys, monkeypatch, tmp_path, agent
):
    monkeypatch.setenv("MEMTRIAL_CACHE", str(tmp_path))
    monkeypatch.setattr(fetch, "_client", lambda: pytest.fail("an index was asked"))
    monkeypatch.setattr("subprocess.run", lambda *_, **__: pytest.fail("a client ran"))
    found = told(capsys, "plan", "--agent", agent, "--task", "depotfeed-returns")
    assert found["plan_sha256"] is None
    assert found["images_unknown"]
    assert found["tasks"] == ["depotfeed-returns"]

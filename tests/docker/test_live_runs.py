"""Promise: plan, approve, run --live: one approved run calls its provider, and its evidence says how far it goes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from orchestrator.attest import layout
from orchestrator.gateway.answers import Said
from orchestrator.ledger.chain import read_entries
from orchestrator.model.record import RunApproved
from orchestrator.model.script import ScriptedCall, ScriptedTurn
from orchestrator.model.usage import Api
from tests.docker.conftest import ours
from tests.docker.test_runs import memtrial
from tests.unit.gateway.support import PRICES
from tests.unit.gateway.upstream import USAGES, _Handler, fake_provider

pytestmark = pytest.mark.docker
TASK = "depotfeed-returns"
KEY = "planted-openai-key-93dd/+=w"


class Looking(_Handler):
    """A model that looks around once and then has nothing more to do."""

    def said(self, api: Api, asked: dict[str, Any], model: str | None = None) -> Said:
        first = len(asked["messages"]) == 1
        calls = (ScriptedCall(name="bash", arguments='{"command":"ls"}'),) if first else ()
        return Said(
            ScriptedTurn(text="Looking.", calls=calls), 0, asked["model"], USAGES[api], False
        )


@pytest.fixture(scope="module")
def approved(tmp_path_factory, client):
    """One approved live run against a provider on loopback."""
    results = tmp_path_factory.mktemp("results")
    path, prices = results / "plan.json", results / "prices.json"
    prices.write_bytes(PRICES.canonical())
    before = ours(client)
    environment: Any = {"OPENAI_API_KEY": KEY, "MEMTRIAL_CONFIG": str(results / "config")}

    def call(*words: str) -> Any:
        return memtrial(*words, results=results, **environment)

    with fake_provider() as provider:
        provider.RequestHandlerClass = Looking
        made = call(
            *("plan", "--agent", "chat", "--task", TASK, "--condition", "no_memory"),
            *("--model", "model-1", "--prices", str(prices), "--upstream", provider.origin),
            *("--max-usd", "5", "--out", str(path)),
        )
        assert made.returncode == 0, made.stderr
        assert "approve local" in made.stdout.splitlines()[-1]
        for words in (("run", str(path)), ("run", str(path), "--live")):
            early = call(*words)
            assert early.returncode == 5, early.stderr
            assert "nothing was contacted" in early.stderr
        assert provider.seen == []
        assert not (results / "latest").exists()
        signed = call("approve", "local", str(path), "--max-usd", "5")
        assert signed.returncode == 0, signed.stderr
        assert "at most 5.00 USD" in signed.stdout
        finished = call("run", str(path), "--live")
        assert finished.returncode == 0, finished.stderr
        again = call("run", str(path), "--live")
        seen = list(provider.seen)
    assert ours(client) == before
    return call, (results / "latest").resolve(), finished, again, seen


def test_the_agent_in_its_container_reached_the_provider(approved):
    _, run, finished, _, seen = approved
    assert len(seen) == 2
    assert {dict(s.headers)["authorization"] for s in seen} == {f"Bearer {KEY}"}
    report = json.loads((run / "report.json").read_bytes())
    assert [t["status"] for t in report["trials"]] == ["unresolved"]
    assert "Directional evidence" in finished.stdout


def test_plan_ledger_and_attestation_are_stamped_and_cite_the_approval(approved):
    run = approved[1]
    plan = json.loads((run / layout.PLAN).read_bytes())
    assert plan["gateway"]["standing"] == "directional"
    (entry,) = [
        e.body for e in read_entries(run / layout.LEDGER)[0] if isinstance(e.body, RunApproved)
    ]
    assert entry.standing == "directional"
    import base64

    envelope = json.loads((run / layout.SUMMARY).read_bytes().splitlines()[0])
    summary = json.loads(base64.b64decode(envelope["payload"]))["predicate"]
    assert (summary["standing"], summary["diagnostic"]) == ("directional", False)
    assert summary["approval_sha256"] == entry.approval_sha256


def test_a_stranger_verifies_the_bundle_and_the_approval_in_it(approved):
    call, run, *_ = approved
    verified = call("verify", run.name)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert "directional: local-" in verified.stdout
    data = (run / layout.APPROVAL).read_bytes()
    (run / layout.APPROVAL).write_bytes(data.replace(b'"keyid":"', b'"keyid": "'))
    try:
        assert call("verify", run.name).returncode in {1, 6}
    finally:
        (run / layout.APPROVAL).write_bytes(data)


def test_the_approval_serves_no_second_run(approved):
    again = approved[3]
    assert again.returncode == 5
    assert "nonce-used, check 9" in again.stderr


def test_the_run_replays_without_approval_key_or_provider(approved):
    call, run, *_ = approved
    finished = call("replay", run.name, "--json")
    assert finished.returncode == 0, finished.stderr
    assert json.loads(finished.stdout)["same"]


def test_the_provider_key_is_in_no_file_of_the_run(approved):
    for path in approved[1].rglob("*"):
        assert not path.is_file() or KEY.encode() not in path.read_bytes(), path

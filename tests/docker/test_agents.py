"""Promise: packaged agents solve a task in hardened containers exactly if memory reaches them, by every channel, and replay to the same."""

from __future__ import annotations

import json
import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from orchestrator.agents.channels import SERVER, delivered
from orchestrator.agents.registry import PACKAGED_AGENTS, driver_for
from orchestrator.agents.servers import FAILED, stated_of
from orchestrator.core.places import cache_root, fixtures_root
from orchestrator.gateway.bodies import BodyPack
from orchestrator.gateway.log import GENESIS_SHA256, read_lines
from orchestrator.ledger.blobs import BlobStore
from orchestrator.model.exchange import Exchange, TrafficLine
from orchestrator.model.proof import CONNECTED
from orchestrator.pipeline.agentsmoke import TASK, WITH, WITHOUT, report_of
from orchestrator.pipeline.options import PlanRequest
from orchestrator.pipeline.setup import make_plan
from orchestrator.pipeline.traffic import gateway_of
from orchestrator.protocols import GatewayAccess, TrialPlace
from orchestrator.sandbox.adapter import DockerSandbox
from orchestrator.sandbox.engine import connect
from orchestrator.sandbox.identity import installation_id
from orchestrator.sources.loader import load_task
from tests.docker.conftest import ours
from tests.docker.test_runs import memtrial

pytestmark = [pytest.mark.docker, pytest.mark.proof]
CHANGED = (b"depotfeed", b"depotfeeb")


@pytest.fixture(scope="module", params=PACKAGED_AGENTS)
def solved(request, tmp_path_factory, client):
    """One trial with curated memory; gives results folder, run folder and the agent's name."""
    results = tmp_path_factory.mktemp("results")
    path = results / "plan.json"
    before = ours(client)
    words = ("--agent", request.param, "--task", TASK, "--condition", WITH, "--out", str(path))
    made = memtrial("plan", *words, results=results)
    assert made.returncode == 0, made.stderr
    finished = memtrial("run", str(path), results=results)
    assert finished.returncode == 0, finished.stderr
    assert ours(client) == before
    return results, (results / "latest").resolve(), request.param


def test_the_agent_solves_the_task_and_its_memory_is_proven(solved):
    report = report_of(solved[1])
    (row,) = report.rows
    assert (row.wrong, report.sound) == ((), True)
    assert (row.resolved, row.proof, row.lookups) == (True, "shown", ())


def test_every_document_of_the_run_verifies_for_a_stranger(solved):
    results, run, _ = solved
    finished = memtrial("verify", run.name, results=results)
    assert finished.returncode == 0, finished.stderr


def test_it_replays_in_fresh_containers_and_a_changed_byte_is_divergent(solved):
    results, run, _ = solved
    finished = memtrial("replay", run.name, "--json", results=results)
    assert finished.returncode == 0, finished.stderr
    again = json.loads(finished.stdout)
    assert again["same"]
    assert diff_of(results / again["replayed_run"]) == diff_of(run)
    copy = results / f"{run.name}-changed"
    shutil.copytree(run, copy)
    change_one_byte(copy / "gateway")
    finished = memtrial("replay", copy.name, results=results)
    assert finished.returncode == 1, finished.stderr
    assert "LEFT ITS RECORDING at call 0 of " in finished.stdout


STATED = {"codex": None, "claude-code": CONNECTED}
OWN = {"codex": "curated_file_agents_md", "claude-code": "curated_file_session_start"}
ARMS = {"reference_mcp": (True, "served"), "tool_presence_placebo": (False, "served")}


@pytest.fixture(scope="module", params=sorted(OWN))
def channelled(request, tmp_path_factory):
    """One trial by each channel of an agent's own; gives results folder, run folder and the agent's name."""
    results = tmp_path_factory.mktemp("results")
    path = results / "plan.json"
    arms = [word for arm in (OWN[request.param], *ARMS) for word in ("--condition", arm)]
    words = ("--agent", request.param, "--task", TASK, *arms, "--out", str(path))
    made = memtrial("plan", *words, results=results)
    assert made.returncode == 0, made.stderr
    finished = memtrial("run", str(path), results=results)
    assert finished.returncode == 0, finished.stderr
    return results, (results / "latest").resolve(), request.param


def test_memory_by_a_channel_of_its_own_solves_the_task_and_tools_without_memory_do_not(channelled):
    rows = {row.condition_id: (row.resolved, row.proof) for row in report_of(channelled[1]).rows}
    assert rows == {OWN[channelled[2]]: (True, "shown"), **ARMS}


def test_the_agent_lists_and_calls_the_tools_and_each_answer_comes_before_its_model(channelled):
    for arm in ARMS:
        proof = document_of(channelled[1], arm, "injection-proof")
        log = document_of(channelled[1], arm, "tool-log")
        assert (log["connected"], log["listed"] >= 1, log["refused"]) == (1, True, 0)
        assert [call["tool"] for call in log["calls"]] == ["memory_search"]
        assert [answer["ordinal"] for answer in proof["answers"]] == [1]
        assert proof["stated"] == STATED[channelled[2]]
        assert bool(log["calls"][0]["item_ids"]) is (arm == "reference_mcp")


def test_what_tools_and_channels_showed_is_proven_again_by_a_stranger(channelled):
    results, run, _ = channelled
    finished = memtrial("verify", run.name, results=results)
    assert finished.returncode == 0, finished.stderr
    (line,) = [said for said in finished.stdout.splitlines() if " injections " in said]
    assert (" ok " in line, " 3 " in line) == (True, True)


@pytest.mark.parametrize("agent", sorted(OWN))
def test_a_client_whose_server_is_not_there_says_so_itself(agent):
    task = load_task(fixtures_root(), TASK)
    plan = make_plan(PlanRequest(agents=(agent,), tasks=(TASK,), conditions=(WITHOUT,)), print)
    sandbox = DockerSandbox(connect(), installation_id(cache_root()))
    with tempfile.TemporaryDirectory(prefix="mta-") as name, ExitStack() as open_now:
        gateway = open_now.enter_context(gateway_of(plan, Path(name), (task,)))
        assert gateway is not None
        opened = gateway.open_trial(TrialPlace("t", TASK, WITHOUT, 1, ("agent",)))
        # No door is bound: the bridge to the server ends at once.
        pin = plan.pin_of(plan.trials[0])
        workspace = open_now.enter_context(sandbox.open(pin, trial="t", sockets=opened.folder))
        access = GatewayAccess(workspace.gateway_url or "", opened.token("agent"), plan.agent(agent).model or "")  # fmt: skip
        launch = driver_for(agent).launch(task.brief.prompt, task.rehearsal, access)
        outcome = workspace.act(delivered(agent, launch, "mcp", ""))
    assert stated_of(agent, outcome.output, SERVER) == FAILED, outcome.output[-2000:]


def document_of(run: Path, arm: str, name: str) -> dict[str, Any]:
    lines = (run / "ledger.jsonl").read_bytes().split(b"\n")
    bodies = [json.loads(line)["body"] for line in lines if b'"stage":"act"' in line]
    (mine,) = [body for body in bodies if f"/{arm}/" in body["trial"]]
    sha256 = next(a["sha256"] for a in mine["artifacts"] if a["name"] == name)
    found: dict[str, Any] = json.loads(BlobStore(run / "blobs").get(sha256))
    return found


def diff_of(run: Path) -> str:
    lines = (run / "ledger.jsonl").read_bytes().split(b"\n")
    bodies = [json.loads(line)["body"] for line in lines if b'"stage":"harvest"' in line]
    found: str = next(
        a["sha256"] for body in bodies for a in body["artifacts"] if a["name"] == "diff"
    )
    return found


def change_one_byte(record: Path) -> None:
    """Changes one byte of the first recorded request and makes the record's chain whole again."""
    pack = BodyPack(record / "bodies.pack", write=True)
    lines: list[bytes] = []
    head = GENESIS_SHA256
    done = False
    for line in read_lines(record / "traffic.jsonl", TrafficLine)[0]:
        body = line.body
        if isinstance(body, Exchange) and body.ordinal == 0 and not done:
            raw = pack.get(body.request)
            assert CHANGED[0] in raw
            body = body.model_copy(update={"request": pack.put(raw.replace(*CHANGED, 1))})
            done = True
        made = TrafficLine(seq=len(lines), prev_sha256=head, body=body)
        lines.append(made.canonical())
        head = made.digest_sha256()
    pack.sync()
    pack.close()
    (record / "traffic.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))

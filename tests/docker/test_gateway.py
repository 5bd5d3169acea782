"""Promise: an agent without a network reaches a model through one socket, is recorded, and replays offline."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from orchestrator.core.places import fixtures_root
from orchestrator.gateway.log import read_lines
from orchestrator.gateway.process import GatewayProcess
from orchestrator.ledger.blobs import BlobStore
from orchestrator.ledger.chain import read_entries
from orchestrator.ledger.history import replay
from orchestrator.model.exchange import Exchange, TrafficLine
from orchestrator.model.gateway import GatewaySetup, Traffic
from orchestrator.model.record import Stage
from orchestrator.pipeline.options import PlanRequest
from orchestrator.pipeline.setup import make_plan
from orchestrator.pipeline.traffic import SCRIPTED_CAPS, gateway_of, load_prices, script_of
from orchestrator.protocols import ActOutcome, Launch, TrialPlace
from orchestrator.sources.loader import load_task
from tests.docker.conftest import ours
from tests.docker.test_runs import memtrial

pytestmark = pytest.mark.docker
TASK = "depotfeed-returns"
PLANTED = "planted-provider-key-0f4c8a17d2"


@pytest.fixture(scope="module")
def plan():
    return make_plan(PlanRequest(agents=("chat",), tasks=(TASK,)), lambda _: None)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory, client):
    """One run of the chat agent under all conditions, with a provider key in the operator's environment."""
    results = tmp_path_factory.mktemp("results")
    path = results / "plan.json"
    before = ours(client)
    made = memtrial("plan", "--agent", "chat", "--task", TASK, "--out", str(path), results=results)
    assert made.returncode == 0, made.stderr
    keys: Any = {"ANTHROPIC_API_KEY": PLANTED, "OPENAI_API_KEY": PLANTED}
    finished = memtrial("run", str(path), results=results, **keys)
    assert finished.returncode == 0, finished.stderr
    assert ours(client) == before
    return results, (results / "latest").resolve()


def exchanges(run: Path) -> list[Exchange]:
    lines, _, _ = read_lines(run / "gateway" / "traffic.jsonl", TrafficLine)
    return [line.body for line in lines if isinstance(line.body, Exchange)]


def traffic_of(run: Path) -> dict[str, Traffic]:
    record = replay(read_entries(run / "ledger.jsonl")[0])
    found = {}
    for key, trial in record.trials.items():
        assert trial.graded is not None
        artifacts = trial.graded.stages[Stage.ACT].artifacts
        (name,) = [a.sha256 for a in artifacts if a.name == "traffic"]
        found[key] = Traffic.parse(BlobStore(run / "blobs").get(name), where="traffic")
    return found


def test_a_scripted_model_resolves_the_task_exactly_when_memory_reaches_it(recorded):
    report = json.loads((recorded[1] / "report.json").read_bytes())
    status = {t["condition_id"]: t["status"] for t in report["trials"]}
    assert status["no_memory"] == "unresolved"
    assert status["curated_file_budgeted"] == "resolved"


def test_every_call_is_recorded_and_bound_to_the_ledger(recorded):
    found = exchanges(recorded[1])
    assert {e.outcome for e in found} == {"answered"}
    assert {e.api for e in found} == {"chat"}
    for key, traffic in traffic_of(recorded[1]).items():
        (agent,) = traffic.roles
        mine = [e for e in found if e.trial == key]
        assert (agent.role, agent.calls, len(mine)) == ("agent", 3, 3)
        assert sum(e.cost.usd_micros for e in mine) == agent.cost.usd_micros > 0
        assert (traffic.unsettled, traffic.lookups, traffic.divergence) == (0, (), None)


def test_a_provider_key_of_the_operator_is_in_no_file_of_the_run(recorded):
    for path in recorded[1].rglob("*"):
        if path.is_file():
            assert PLANTED.encode() not in path.read_bytes(), path


@pytest.mark.parametrize("reach_by", ["socket", "relay"])
def test_the_run_replays_offline_to_the_same_verdicts(recorded, client, reach_by):
    results, run = recorded
    over: Any = {"MEMTRIAL_REACH": reach_by}
    before = ours(client)
    finished = memtrial("replay", run.name, "--json", results=results, **over)
    assert finished.returncode == 0, finished.stderr
    report = json.loads(finished.stdout)
    assert report["same"]
    assert (results / "latest").resolve() == run, "a replay takes no name away from its recording"
    assert all(t["exact"] + t["normalised"] == 3 for t in report["trials"])
    assert len(report["trials"]) == 3
    assert ours(client) == before


def test_a_replay_of_a_changed_recording_says_where_it_left(recorded, tmp_path):
    """The recorded run is given another prompt by a change of its plan's task: the first call differs."""
    run = recorded[1]
    request = PlanRequest(agents=("chat",), tasks=(TASK,), conditions=("no_memory",))
    plan = make_plan(request, lambda _: None)
    other = tmp_path / "results"
    path = tmp_path / "plan.json"
    path.write_bytes(plan.canonical())
    finished = memtrial("run", str(path), results=other)
    assert finished.returncode == 0, finished.stderr
    copy = (other / "latest").resolve()
    # A recording of another condition's trial under this trial's name: same calls, other prompt.
    lines: list[bytes] = []
    head = "0" * 64
    for line in read_lines(run / "gateway" / "traffic.jsonl", TrafficLine)[0]:
        body = line.body
        if isinstance(body, Exchange) and body.trial and "/curated" in body.trial:
            changed = body.model_copy(update={"trial": plan.trials[0].key})
            made = TrafficLine(seq=len(lines), prev_sha256=head, body=changed)
            lines.append(made.canonical())
            head = made.digest_sha256()
    (copy / "gateway" / "traffic.jsonl").write_bytes(b"".join(x + b"\n" for x in lines))
    pack = (run / "gateway" / "bodies.pack").read_bytes()
    (copy / "gateway" / "bodies.pack").write_bytes(pack)
    finished = memtrial("replay", copy.name, results=other)
    assert finished.returncode == 1, finished.stderr
    assert "LEFT ITS RECORDING at call 0 of chat (agent), /messages/0/content" in finished.stdout


@pytest.fixture(params=["socket", "relay"])
def reach(plan, sandbox, tmp_path, nothing_left, monkeypatch, request):
    """Runs a command in an agent's container that has a way to a gateway; gives its output and the traffic."""
    monkeypatch.setenv("MEMTRIAL_REACH", request.param)
    task = plan.tasks[0]
    tasks = (load_task(fixtures_root(), TASK),)

    def run(*argv: str, forged: str | None = None) -> tuple[ActOutcome, Traffic, str]:
        with gateway_of(plan, tmp_path / "run", tasks) as gateway:
            assert gateway is not None
            place = TrialPlace("trial", TASK, "none", 1, ("agent",))
            opened = gateway.open_trial(place)
            with sandbox.open(task, trial="trial", sockets=opened.folder) as workspace:
                inside = (
                    ("TOKEN", forged or opened.token("agent")),
                    ("URL", workspace.gateway_url),
                )
                outcome = workspace.act(Launch(argv, inside, b""))
            return outcome, gateway.close_trial("trial"), opened.token("agent")

    return run


def test_a_look_up_finds_nothing_and_is_reported(reach):
    program = (
        "import socket\n"
        "for name in ('telemetry.example.org', 'localhost'):\n"
        "    try: print(socket.getaddrinfo(name, 443, type=socket.SOCK_STREAM)[0][4][0])\n"
        "    except OSError as error: print(type(error).__name__)\n"
    )
    outcome, traffic, _ = reach("python3", "-c", program)
    assert outcome.output.split() == [b"gaierror", b"127.0.0.1"] or b"::1" in outcome.output
    assert set(traffic.lookups) == {"telemetry.example.org"}


def test_there_is_no_way_out_but_the_gateway(reach):
    """Nothing but loopback is up, and the socket's folder holds one socket and cannot be written."""
    program = (
        "import os, socket\n"
        "print(sorted(os.listdir('/sys/class/net')), os.listdir('/run/memtrial'))\n"
        "for address in (('172.17.0.1', 80), ('10.0.0.1', 53), ('1.1.1.1', 443)):\n"
        "    s = socket.socket(); s.settimeout(3)\n"
        "    try: s.connect(address); print('CONNECTED')\n"
        "    except OSError as error: print(error.errno)\n"
        "try: open('/run/memtrial/x', 'w'); print('WRITTEN')\n"
        "except OSError: print('ro')\n"
    )
    outcome, _, _ = reach("python3", "-c", program)
    lines = outcome.output.decode().split("\n")
    assert lines[0] == "['lo'] ['gateway.sock']"
    assert lines[1:5] == ["101", "101", "101", "ro"]


def test_the_token_of_another_trial_gets_no_answer(reach):
    program = "import os,urllib.request as u\ntry: u.urlopen(u.Request(os.environ['URL']+'/v1/chat/completions',data=b'{}',headers={'authorization':'Bearer '+os.environ['TOKEN']}))\nexcept u.HTTPError as e: print(e.code)"
    outcome, traffic, _ = reach("python3", "-c", program, forged="mtr-agent-" + "a" * 32)
    assert outcome.output.strip() == b"403"
    assert traffic.roles == ()


def test_an_agent_that_ends_the_forwarder_harms_itself_alone(reach):
    program = (
        "import os, signal, socket, time\n"
        "for pid in filter(str.isdigit, os.listdir('/proc')):\n"
        "    if b'agent/forw' + b'ard.py' in open(f'/proc/{pid}/cmdline', 'rb').read():\n"
        "        os.kill(int(pid), signal.SIGKILL); print('ended')\n"
        "time.sleep(0.2)\n"
        "try: socket.create_connection(('127.0.0.1', 8377), 3); print('OPEN')\n"
        "except OSError: print('closed')\n"
    )
    outcome, traffic, _ = reach("python3", "-c", program)
    assert outcome.output.split() == [b"ended", b"closed"]
    assert traffic.unsettled == 0


def test_a_conversation_of_many_calls_at_once_goes_through(reach):
    """Twelve threads, each a whole answer of the scripted model over a connection of its own."""
    program = (
        "import os, json, threading, urllib.request as u\n"
        "body = json.dumps({'model': 'scripted-1', 'messages': [{'role': 'user', 'content': 'x' * 200000}]}).encode()\n"
        "head = {'authorization': 'Bearer ' + os.environ['TOKEN'], 'content-type': 'application/json'}\n"
        "found = []\n"
        "def ask():\n"
        "    with u.urlopen(u.Request(os.environ['URL'] + '/v1/chat/completions', data=body, headers=head)) as a:\n"
        "        found.append(json.load(a)['choices'][0]['message']['content'])\n"
        "threads = [threading.Thread(target=ask) for _ in range(12)]\n"
        "[t.start() for t in threads]; [t.join() for t in threads]; print(len(found), set(found))\n"
    )
    outcome, traffic, _ = reach("python3", "-c", program)
    assert outcome.output.strip() == b"12 {'Looking around.'}"
    assert (traffic.roles[0].calls, traffic.unsettled) == (12, 0)


def test_a_gateway_that_is_gone_is_an_infrastructure_outcome(plan, sandbox, tmp_path):
    (tmp_path / "empty").mkdir()
    with (
        sandbox.open(plan.tasks[0], trial="t", sockets=tmp_path / "empty") as workspace,
        pytest.raises(Exception, match="socket to answer"),
    ):
        workspace.act(Launch(("true",), (), b""))


def test_a_trial_without_a_gateway_has_no_socket(plan, sandbox, nothing_left):
    with sandbox.open(plan.tasks[0], trial="t") as workspace:
        assert workspace.gateway_url is None
        outcome = workspace.act(Launch(("ls", "/run"), (), b""))
    assert b"memtrial" not in outcome.output


def test_no_container_is_given_a_key_or_more_than_its_own_token(reach):
    """The environment, files and processes of the container, as the agent can see them."""
    os.environ["ANTHROPIC_API_KEY"] = PLANTED
    try:
        outcome, _, token = reach(
            "bash",
            "-c",
            "env; cat /proc/*/environ /proc/*/cmdline 2>/dev/null; grep -rs planted / --include=* -l --exclude-dir=proc --exclude-dir=sys | head",
        )
    finally:
        del os.environ["ANTHROPIC_API_KEY"]
    assert PLANTED.encode() not in outcome.output
    assert token.encode() in outcome.output


def test_a_gateway_ends_with_the_process_that_started_it(tmp_path):
    setup = GatewaySetup(
        folder=str(tmp_path / "r"),
        sockets=str(tmp_path / "s"),
        prices=load_prices(fixtures_root()),
        caps=SCRIPTED_CAPS,
        script=script_of((load_task(fixtures_root(), TASK),)),
    )
    with GatewayProcess(setup) as gateway:
        gateway.open_trial(TrialPlace("t", TASK, "none", 1, ("agent",)))
        process = gateway._process
    assert process.returncode == 0

"""Promise: a gateway is a process of its own that ends with its starter, holds its place alone, and serves a person."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from orchestrator.core.errors import UsageError
from orchestrator.gateway.process import GatewayFault, GatewayProcess
from orchestrator.gateway.scripted import ScriptedMode
from orchestrator.model.gateway import GatewaySetup
from tests.unit.gateway.support import PRICES, SCRIPT, WIDE, chat, place, post, running

ROOT = Path(__file__).resolve().parents[3]


def setup_in(folder: Path, **changes: object) -> GatewaySetup:
    facts: dict[str, object] = {
        "folder": str(folder / "record"),
        "sockets": str(folder / "s"),
        "prices": PRICES,
        "caps": WIDE,
        "script": SCRIPT,
    }
    return GatewaySetup.model_validate({**facts, **changes})


def test_a_trial_is_opened_served_and_closed_over_the_pipe(tmp_path):
    with GatewayProcess(setup_in(tmp_path)) as gateway:
        opened = gateway.open_trial(place())
        assert post(opened, "/v1/chat/completions", chat())[0] == 200
        traffic = gateway.close_trial(place().trial)
        assert [(r.role, r.calls) for r in traffic.roles] == [("agent", 1)]
        assert not opened.folder.exists()


def test_no_token_stands_in_a_command_line_an_environment_or_a_file(tmp_path):
    with GatewayProcess(setup_in(tmp_path)) as gateway:
        token = gateway.open_trial(place()).token("agent").encode()
        process = Path(f"/proc/{gateway._process.pid}")
        assert token not in process.joinpath("cmdline").read_bytes()
        assert token not in process.joinpath("environ").read_bytes()
        for path in tmp_path.rglob("*"):
            if path.is_file():
                assert token not in path.read_bytes()


def test_a_refusal_comes_back_as_an_error_and_the_process_goes_on(tmp_path):
    with GatewayProcess(setup_in(tmp_path)) as gateway:
        gateway.open_trial(place())
        with pytest.raises(GatewayFault, match="found it open"):
            gateway.open_trial(place())
        with pytest.raises(GatewayFault, match="closed"):
            gateway.close_trial("another")
        gateway.close_trial(place().trial)


def test_a_set_up_with_script_and_cassette_or_none_is_refused(tmp_path):
    with pytest.raises(GatewayFault, match="exactly one"):
        GatewayProcess(setup_in(tmp_path, script=None))


def test_two_gateways_cannot_share_a_record(tmp_path):
    with GatewayProcess(setup_in(tmp_path)), pytest.raises(GatewayFault, match="no gateway holds"):
        GatewayProcess(setup_in(tmp_path, sockets=str(tmp_path / "other")))


def test_two_gateways_cannot_share_a_socket_and_a_dead_ones_socket_is_taken_over(tmp_path):
    path = tmp_path / "gateway.sock"
    with (
        running(ScriptedMode(SCRIPT), tmp_path / "a") as one,
        running(ScriptedMode(SCRIPT), tmp_path / "b") as two,
    ):
        one.call(one.gateway.listen_unix(path))
        with pytest.raises(UsageError, match="another process listening"):
            two.call(two.gateway.listen_unix(path))
    stale = tmp_path / "stale.sock"
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(str(stale))
    dead.close()
    with running(ScriptedMode(SCRIPT), tmp_path / "c") as three:
        three.call(three.gateway.listen_unix(stale))


def test_a_gateway_ends_when_its_starter_is_killed(tmp_path):
    """The starter is a process that is killed with SIGKILL while a trial is open."""
    program = (
        "import sys, time; from pathlib import Path;"
        "from tests.unit.gateway.test_process import *;"
        f"g = GatewayProcess(setup_in(Path({str(tmp_path)!r}))); g.open_trial(place());"
        "print(g._process.pid, flush=True); time.sleep(60)"
    )
    starter = subprocess.Popen(
        [sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert starter.stdout is not None
    pid = int(starter.stdout.readline())
    starter.kill()
    starter.wait()
    starter.stdout.close()
    deadline = time.monotonic() + 20
    while Path(f"/proc/{pid}").exists() and "Z" not in state_of(pid):
        assert time.monotonic() < deadline, "the gateway outlived its starter"
        time.sleep(0.05)


def state_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return "Z"


@contextlib.contextmanager
def served(*words: str) -> Iterator[dict[str, str]]:
    """Runs `memtrial gateway` and gives what it says when it is ready."""
    process = subprocess.Popen(
        [sys.executable, "-m", "orchestrator", "gateway", "--json", *words],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OPENAI_API_KEY": "never-read-never-used"},
    )
    assert process.stdout is not None
    try:
        text = ""
        while not text.endswith("}\n"):
            line = process.stdout.readline()
            assert line, text
            text += line
        yield json.JSONDecoder().decode(text)
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
        process.stdout.close()


def test_the_verb_serves_a_script_on_a_loopback_port(tmp_path):
    script = tmp_path / "script.json"
    script.write_bytes(SCRIPT.canonical())
    with (
        served("--script", str(script), "--port", "0", "--record", str(tmp_path / "r")) as facts,
        httpx2.Client(trust_env=False) as client,
    ):
        answer = client.post(
            f"{facts['address']}/v1/chat/completions",
            json={**chat(), "model": "scripted-1"},
            headers={"authorization": f"Bearer {facts['agent']}"},
        )
        assert answer.json()["choices"][0]["message"]["content"] == "Looking."
    assert (tmp_path / "r" / "traffic.jsonl").read_bytes().count(b'"answered"') == 1


def test_the_verb_serves_on_a_unix_socket(tmp_path):
    script = tmp_path / "script.json"
    script.write_bytes(SCRIPT.canonical())
    path = tmp_path / "g.sock"
    with (
        served("--script", str(script), "--socket", str(path)) as facts,
        httpx2.Client(transport=httpx2.HTTPTransport(uds=str(path))) as client,
    ):
        answer = client.post("http://g/v1/messages", headers={"x-api-key": facts["agent"]})
        assert answer.status_code == 400


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--port", "0"), 2, "exactly one of --script and --cassette"),
        (("--script", "none.json", "--port", "0"), 2, "none.json"),
        (("--script", "README.md", "--port", "0"), 3, "README.md"),
        (
            (
                "--script",
                "x",
            ),
            2,
            "expected one of --socket and --port, found neither",
        ),
        (("--cassette", "no-such-run", "--port", "0"), 2, "no-such-run"),
    ],
)
def test_a_wrong_command_line_is_refused_with_the_next_step(words, code, said):
    finished = subprocess.run(
        [sys.executable, "-m", "orchestrator", "gateway", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == code, finished.stderr
    assert said in finished.stderr
    assert "next:" in finished.stderr


def test_what_is_no_socket_is_left_where_it_lies(tmp_path):
    precious = tmp_path / "precious.txt"
    precious.write_text("mine")
    with (
        running(ScriptedMode(SCRIPT), tmp_path / "one") as here,
        pytest.raises(UsageError, match="left as it is"),
    ):
        here.call(here.gateway.listen_unix(precious))
    assert precious.read_text() == "mine"


def test_a_place_that_cannot_be_had_is_refused_by_name(tmp_path):
    with running(ScriptedMode(SCRIPT), tmp_path / "one") as here:
        with pytest.raises(UsageError, match="nowhere/s: expected a folder"):
            here.call(here.gateway.listen_unix(tmp_path / "nowhere" / "s"))
        for port in (99_999, here.call(here.gateway.listen_loopback(0))):
            with pytest.raises(UsageError, match=f"port {port}: expected a free loopback port"):
                here.call(here.gateway.listen_loopback(port))


def test_a_socket_is_gone_with_its_gateway(tmp_path):
    with running(ScriptedMode(SCRIPT), tmp_path / "one") as here:
        here.call(here.gateway.listen_unix(tmp_path / "s"))
        assert (tmp_path / "s").is_socket()
    assert not (tmp_path / "s").exists()

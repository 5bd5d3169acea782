"""Promise: `memtrial doctor` tries the way to the gateway in a container, and leaves nothing behind."""

from __future__ import annotations

import json

import pytest

from orchestrator.cli.main import main
from orchestrator.sandbox.identity import labels
from orchestrator.sandbox.reach import ask_inside, judge, probe_reach

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("nothing_left")]
LABELS = labels("test-reach", "doctor")


def test_a_socket_of_this_machine_is_heard_inside_a_container_without_network(client):
    reach = probe_reach(client, LABELS)
    assert (reach.way, reach.ok) == ("socket", True)


def test_a_folder_without_a_socket_is_told_as_no_answer(client, plan, tmp_path):
    tmp_path.chmod(0o755)
    told = ask_inside(client, plan.tasks[0].agent_image.id, tmp_path, LABELS)
    assert told["networks"] == ["lo"]
    reach = judge(told, "word")
    assert not reach.ok
    assert "No such file" in reach.found


def test_an_image_that_is_not_there_is_told_and_never_pulled(client, tmp_path):
    told = ask_inside(client, "sha256:" + "0" * 64, tmp_path, LABELS)
    assert not judge(told, "word").ok
    assert told["fault"]


def test_doctor_says_how_an_agent_would_reach_its_model(capsys, monkeypatch):
    main(["doctor", "--json"])
    checks = {c["name"]: c for c in json.loads(capsys.readouterr().out)["checks"]}
    assert checks["reach"]["ok"]
    assert "a socket answers" in checks["reach"]["found"]
    monkeypatch.setenv("MEMTRIAL_REACH", "relay")
    main(["doctor", "--json"])
    checks = {c["name"]: c for c in json.loads(capsys.readouterr().out)["checks"]}
    assert "relay container" in checks["reach"]["found"]

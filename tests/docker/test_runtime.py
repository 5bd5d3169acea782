"""Promise: every container of a trial runs on the runtime of the plan; an absent one starts nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orchestrator.cli.main import main
from orchestrator.core.files import write_atomic
from orchestrator.core.places import cache_root
from orchestrator.ledger.blobs import BlobStore
from orchestrator.ledger.chain import read_entries
from orchestrator.model.plan import Plan
from orchestrator.model.record import Prepared, Stage, StageDone
from orchestrator.pipeline.options import PlanRequest
from orchestrator.pipeline.setup import make_plan
from orchestrator.sandbox import containers
from orchestrator.sandbox.adapter import DockerSandbox
from orchestrator.sandbox.identity import installation_id
from orchestrator.sandbox.runtimes import runtimes_of

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("nothing_left")]
ONE: dict[str, Any] = {
    "agents": ("oracle",),
    "tasks": ("depotfeed-returns",),
    "conditions": ("no_memory",),
}


@pytest.fixture
def started(monkeypatch) -> list[tuple[str, str]]:
    """Our program and the runtime, by the engine's account, of every container that is made."""
    seen: list[tuple[str, str]] = []
    honest = vars(containers)["_create"]

    def create(client, options):
        made = honest(client, options)
        program = next(Path(word).stem for word in options["command"] if word.endswith(".py"))
        seen.append((program, client.api.inspect_container(made)["HostConfig"]["Runtime"]))
        return made

    monkeypatch.setattr(containers, "_create", create)
    return seen


def other_name(client) -> str:
    """Another name than the default's, so that a choice which is not passed on is seen."""
    found = runtimes_of(client.info())
    return next(name for name in found.names if name != found.default and "v1" not in name)


def prepared(folder) -> list[Prepared]:
    entries = [entry.body for entry in read_entries(folder / "ledger.jsonl")[0]]
    blobs = BlobStore(folder / "blobs")
    return [
        Prepared.parse(blobs.get(body.document_sha256), where="prepare")
        for body in entries
        if isinstance(body, StageDone) and body.stage is Stage.PREPARE
    ]


def test_agent_harvester_and_both_verifiers_run_on_the_planned_runtime(
    client, results, tmp_path, started, capsys
):
    name = other_name(client)
    plan = make_plan(PlanRequest(**ONE, runtime=name), lambda _: None)
    path = tmp_path / "plan.json"
    write_atomic(path, plan.canonical())
    assert main(["run", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["arms"][0]["resolved"] == {"passed": 1, "of": 1}
    assert sorted(started) == [
        ("enter", name),
        ("harvest", name),
        ("verify", name),
        ("verify", name),
    ]
    folder = (results / "latest").resolve()
    assert [document.runtime for document in prepared(folder)] == [name]
    assert Plan.parse((folder / "plan.json").read_bytes(), where="plan.json").runtime == name


def test_runc_by_name_gives_a_working_container(client, plan):
    sandbox = DockerSandbox(client, installation_id(cache_root()), runtime="runc")
    with sandbox.open(plan.task("depotfeed-returns"), trial="test") as workspace:
        assert workspace.runtime == "runc"


def test_without_a_choice_the_engines_default_is_what_is_on_record(client, sandbox, plan):
    with sandbox.open(plan.task("depotfeed-returns"), trial="test") as workspace:
        assert workspace.runtime == runtimes_of(client.info()).default


def test_a_plan_for_a_runtime_that_the_engine_lacks_is_refused(tmp_path, results, capsys):
    words = ["plan", "--agent", "oracle", "--runtime", "runsc", "--out", str(tmp_path / "p.json")]
    assert main(words) == 4
    said = capsys.readouterr().err
    assert "expected container runtime runsc in the engine, found " in said
    assert "runc" in said
    assert not (tmp_path / "p.json").exists()


def test_a_plan_from_elsewhere_is_refused_before_a_run_begins(tmp_path, results, started, capsys):
    path = tmp_path / "plan.json"
    plan = make_plan(PlanRequest(**ONE, runtime="runsc"), lambda _: None, offline=True)
    write_atomic(path, plan.canonical())
    assert main(["run", str(path)]) == 4
    assert "runtime-missing" in capsys.readouterr().err
    assert started == []
    assert not list(results.glob("2*"))


def test_doctor_lists_the_runtimes_and_says_whether_the_engine_is_rootless(client, capsys):
    main(["doctor", "--json"])
    told = json.loads(capsys.readouterr().out)["runtimes"]
    info = client.info()
    assert told["names"] == sorted(info["Runtimes"])
    assert told["default"] == info["DefaultRuntime"]
    assert told["rootless"] is ("name=rootless" in info["SecurityOptions"])

"""Promise: what an engine adds to a container beyond the declaration is seen from inside, before any agent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orchestrator.core.errors import Inadmissible
from orchestrator.model.plan import Plan
from orchestrator.pipeline import isolation
from orchestrator.pipeline.breaches import require_isolated
from orchestrator.pipeline.guards import Guards
from orchestrator.protocols import Launch
from orchestrator.sandbox import containers
from orchestrator.sandbox.harden import create_options
from orchestrator.sandbox.leaks.literals import canary
from orchestrator.sources.loader import load_task

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("nothing_left")]
TASK, ARM = "depotfeed-returns", "no_memory"
LAUNCH = Launch(argv=("true",), environment=(), stdin=b"")


@pytest.fixture
def prove(client, sandbox, plan: Plan, fixtures: Path):
    """Opens a container and proves its isolation."""
    guard = Guards({TASK: load_task(fixtures, TASK)}, client, secret="test").of(plan.task(TASK))

    def run():
        with sandbox.open(plan.task(TASK), trial="test") as workspace:
            return isolation.isolate(
                guard=guard,
                trial="test",
                task=plan.task(TASK),
                condition=plan.condition(ARM),
                workspace=workspace,
                launch=isolation.marked(LAUNCH, guard.canary("test")),
                keep=lambda name, data: "",
            )

    return run


@pytest.fixture
def meddle(monkeypatch):
    """Changes the options of the agent's container as a careless harness would."""
    honest = create_options

    def change(**more: Any) -> None:
        def options(profile, **given):
            made: dict[str, Any] = dict(honest(profile, **given))
            if profile.role != "agent":
                return made
            for name, value in more.items():
                both = isinstance(value, dict) and isinstance(made.get(name), dict)
                made[name] = {**made[name], **value} if both else value
            return made

        monkeypatch.setattr(containers, "create_options", options)

    return change


def test_an_honest_container_equals_its_declaration_and_nothing_is_in_sight(prove):
    proof = prove()
    assert (proof.differences, proof.findings, proof.partial) == ((), (), False)
    assert proof.literals > 20
    require_isolated(proof)


@pytest.mark.parametrize(
    ("options", "what", "subject"),
    [
        ({"environment": {"CONDITION": "raw_fts"}}, "environment", "CONDITION"),
        ({"hostname": "depotfeed-returns"}, "hostname", "hostname"),
        ({"tmpfs": {"/mnt": "rw,size=1m"}}, "mount", "/mnt"),
        ({"read_only": False}, "mount", "/"),
        ({"network_mode": "bridge"}, "interface", "eth0"),
    ],
    ids=["variable", "hostname", "tmpfs", "writable root", "network"],
)
def test_what_the_engine_adds_is_a_difference(prove, meddle, options, what, subject):
    meddle(**options)
    proof = prove()
    assert (what, subject) in [(item.what, item.subject) for item in proof.differences]
    with pytest.raises(Inadmissible, match="declared inventory"):
        require_isolated(proof)


def test_a_host_folder_in_home_is_seen_with_its_files_and_a_canary_in_it_is_found(
    prove, meddle, tmp_path
):
    mark = canary("other run", "host")
    (tmp_path / "notes.txt").write_bytes(b"from an earlier trial: " + mark[::-1])
    tmp_path.chmod(0o755)
    meddle(volumes={str(tmp_path): {"bind": "/home/agent/.cache", "mode": "ro"}})
    proof = prove()
    subjects = {(item.what, item.subject) for item in proof.differences}
    assert ("mount", "/home/agent/.cache") in subjects
    assert ("file", "/home/agent/.cache/notes.txt") in subjects
    (finding,) = [item for item in proof.findings if item.literal_kind == "canary"]
    assert finding.encoding == "reversed"
    assert mark[-32:] not in proof.canonical()
    with pytest.raises(Inadmissible, match="canary literal"):
        require_isolated(proof)


def test_a_hidden_test_in_a_label_is_found_by_its_digest_only(prove, meddle, fixtures):
    hidden = load_task(fixtures, TASK).key.hidden_files[0].text
    meddle(labels={"note": hidden.encode().hex()})
    proof = prove()
    assert {item.literal_kind for item in proof.findings} == {"hidden"}
    assert all(item.place.startswith("engine's description") for item in proof.findings)
    assert "parse_return" not in proof.canonical().decode()


def test_a_file_put_into_the_containers_own_layer_is_named(prove, monkeypatch):
    import io
    import tarfile

    honest = containers.Container.start

    def start(client, clock, profile, **given):
        create = containers._create

        def creating(client, options):
            made = create(client, options)
            if profile.role == "agent":
                out = io.BytesIO()
                with tarfile.open(fileobj=out, mode="w") as archive:
                    member = tarfile.TarInfo("notes.txt")
                    archive.addfile(member, io.BytesIO())
                client.api.put_archive(made, "/opt", out.getvalue())
            return made

        with monkeypatch.context() as patch:
            patch.setattr(containers, "_create", creating)
            return honest(client, clock, profile, **given)

    monkeypatch.setattr(containers.Container, "start", start)
    monkeypatch.setattr(
        containers,
        "create_options",
        lambda profile, _honest=create_options, **given: {
            **_honest(profile, **given),
            **({"read_only": False} if profile.role == "agent" else {}),
        },
    )
    proof = prove()
    named = [item.subject for item in proof.differences if item.what == "image_file"]
    assert "/opt/notes.txt" in named

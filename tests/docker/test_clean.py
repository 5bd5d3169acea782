"""Promise: `memtrial clean` and every start remove the orphans of this installation and nothing else."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator

import pytest
from docker.errors import NotFound

from orchestrator.sandbox.adapter import DockerSandbox
from orchestrator.sandbox.identity import labels, this_owner
from orchestrator.sandbox.reaper import reap
from tests.unit.sandbox.test_reaper_rules import dead_owner

pytestmark = pytest.mark.docker
KINDS = ("container", "volume", "network")


class Planted:
    """Objects of each kind with given labels; all are removed again at the end, by id."""

    def __init__(self, client, image):
        self.client, self.image = client, image
        self.made: list[tuple[str, str]] = []

    def plant(self, kind: str, found: dict[str, str]) -> tuple[str, str]:
        api = self.client.api
        name = f"planted-{secrets.token_hex(6)}"
        if kind == "container":
            options = {"command": ["sleep", "60"], "network_mode": "none", "labels": found}
            name = self.client.containers.create(self.image, **options).id
        elif kind == "volume":
            api.create_volume(name, labels=found)
        else:
            name = api.create_network(name, internal=True, labels=found)["Id"]
        self.made.append((kind, name))
        return kind, name

    def there(self, kind: str, name: str) -> bool:
        api = self.client.api
        look = {
            "container": api.inspect_container,
            "volume": api.inspect_volume,
            "network": api.inspect_network,
        }[kind]
        try:
            look(name)
        except NotFound:
            return False
        return True

    def remove(self) -> None:
        api = self.client.api
        for kind, name in self.made:
            try:
                if kind == "container":
                    api.remove_container(name, force=True)
                elif kind == "volume":
                    api.remove_volume(name, force=True)
                else:
                    api.remove_network(name)
            except NotFound:
                pass


@pytest.fixture
def planted(client, plan) -> Iterator[Planted]:
    objects = Planted(client, plan.tasks[0].agent_image.id)
    yield objects
    objects.remove()


@pytest.fixture
def installation() -> str:
    """An installation of its own: other tests work in the same engine."""
    return secrets.token_hex(8)


def of(installation: str, owner: str) -> dict[str, str]:
    return labels(installation, "t/c/a/e1") | {"memtrial.owner": owner}


@pytest.mark.parametrize("kind", KINDS)
def test_an_orphan_of_each_kind_goes_and_every_look_alike_stays(
    client, planted, installation, kind
):
    dead = dead_owner()
    orphan = planted.plant(kind, of(installation, dead))
    others = [
        planted.plant(kind, found)
        for found in (
            {},
            {"memtrial": "trial"},
            {"memtrial.owner": dead, "memtrial.installation": installation},
            of(secrets.token_hex(8), dead),
            of(installation + "0", dead),
            of(installation, this_owner()),
            of(installation, ""),
            of(installation, dead) | {"memtrial": "image"},
        )
    ]
    looked = reap(client, installation, look_only=True)
    assert [item.kind for item in looked.removed] == [kind]
    assert planted.there(*orphan)
    reaped = reap(client, installation)
    assert (reaped.total, reaped.count(kind)) == (1, 1)
    assert not planted.there(*orphan)
    assert [planted.there(*other) for other in others] == [True] * len(others)
    assert sorted(item.why for item in reaped.kept) == [
        "its owner cannot be seen from here and it is not old enough",
        "its owner runs",
    ]


def test_a_running_orphan_goes_with_the_volume_that_it_holds(client, plan, planted, installation):
    found = of(installation, dead_owner())
    _, volume = planted.plant("volume", found)
    container = client.containers.run(
        plan.tasks[0].agent_image.id,
        ["sleep", "60"],
        detach=True,
        network_mode="none",
        labels=found,
        volumes={volume: {"bind": "/work", "mode": "rw"}},
    )
    planted.made.append(("container", container.id))
    reaped = reap(client, installation)
    assert (reaped.count("container"), reaped.count("volume")) == (1, 1)


def test_the_verb_says_what_goes_what_stays_and_why(
    client, planted, installation, monkeypatch, tmp_path, capsys
):
    from orchestrator.cli.main import main

    (tmp_path / "installation-id").write_text(installation)
    monkeypatch.setenv("MEMTRIAL_CACHE", str(tmp_path))
    orphan = planted.plant("volume", of(installation, dead_owner()))
    mine = planted.plant("volume", of(installation, this_owner()))
    assert main(["clean", "--dry-run"]) == 0
    assert "would remove volume" in capsys.readouterr().out
    assert planted.there(*orphan)
    assert main(["clean", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["volumes"], [item["name"] for item in told["kept"]]) == (1, [mine[1]])
    assert not planted.there(*orphan)
    assert planted.there(*mine)


def test_what_a_sandbox_could_not_remove_is_swept_at_the_end_of_its_run(
    client, planted, installation
):
    ended, running = DockerSandbox(client, installation), DockerSandbox(client, installation)
    left = planted.plant("volume", labels(installation, "t", ended.session))
    used = planted.plant("volume", labels(installation, "t", running.session))
    reap(client, installation, session=ended.session)
    assert (planted.there(*left), planted.there(*used)) == (False, True)

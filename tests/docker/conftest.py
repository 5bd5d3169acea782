"""Real Docker for the tests of this folder: images are made once, objects are counted before and after."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from orchestrator.core.places import cache_root
from orchestrator.model.plan import Plan
from orchestrator.pipeline.options import PlanRequest
from orchestrator.pipeline.setup import make_plan
from orchestrator.sandbox.adapter import DockerSandbox, EngineClient
from orchestrator.sandbox.engine import connect
from orchestrator.sandbox.identity import (
    LABEL_INSTALLATION,
    LABEL_OWNER,
    installation_id,
    owner_state,
    this_owner,
)

# Numbers of the programs that this test process started.
STARTED: set[str] = set()


class Remembered(subprocess.Popen[Any]):
    """A program whose number is kept, to tell what it leaves in the engine from what others leave."""

    def __init__(self, *words: Any, **more: Any) -> None:
        super().__init__(*words, **more)
        STARTED.add(str(self.pid))


@pytest.fixture(scope="session", autouse=True)
def programs_are_remembered() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess, "Popen", Remembered)
        yield


@pytest.fixture(scope="session")
def client() -> EngineClient:
    return connect()


@pytest.fixture(scope="session")
def plan() -> Plan:
    return make_plan(PlanRequest(agents=("oracle", "noop", "follower")), lambda _: None)


@pytest.fixture
def sandbox(client: EngineClient) -> DockerSandbox:
    return DockerSandbox(client, installation_id(cache_root()))


def ours(client: EngineClient) -> dict[str, set[str]]:
    """Returns the objects of this test process, and what its programs left.

    Other tests work beside it in the same installation: their objects, also those of a run that such a
    test has just killed, come and go meanwhile.
    """
    own = f"{LABEL_INSTALLATION}={installation_id(cache_root())}"
    label = {"label": ["memtrial=trial", own]}

    def mine(owner: str) -> bool:
        left = (
            owner.partition(":")[0] in STARTED and owner_state(owner, object_age_s=None) == "dead"
        )
        return left or owner == this_owner()

    def names(items: list[dict[str, Any]], name: str) -> set[str]:
        return {
            item[name] for item in items if mine((item.get("Labels") or {}).get(LABEL_OWNER, ""))
        }

    return {
        "containers": names(client.api.containers(all=True, filters=label), "Id"),
        "volumes": names(client.api.volumes(filters=label)["Volumes"] or [], "Name"),
        "networks": names(client.api.networks(filters=label), "Id"),
    }


@pytest.fixture
def nothing_left(client: EngineClient) -> Iterator[None]:
    before = ours(client)
    yield
    assert ours(client) == before

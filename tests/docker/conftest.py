"""Real Docker for the tests of this folder: images are made once, objects are counted before and after."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from orchestrator.core.places import cache_root
from orchestrator.model.plan import Plan
from orchestrator.pipeline.options import PlanRequest
from orchestrator.pipeline.setup import make_plan
from orchestrator.sandbox.adapter import DockerSandbox, EngineClient
from orchestrator.sandbox.engine import connect
from orchestrator.sandbox.identity import installation_id


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
    label = {"label": "memtrial=trial"}
    return {
        "containers": {c["Id"] for c in client.api.containers(all=True, filters=label)},
        "volumes": {v["Name"] for v in client.api.volumes(filters=label)["Volumes"] or []},
        "networks": {n["Id"] for n in client.api.networks(filters=label)},
    }


@pytest.fixture
def nothing_left(client: EngineClient) -> Iterator[None]:
    before = ours(client)
    yield
    assert ours(client) == before

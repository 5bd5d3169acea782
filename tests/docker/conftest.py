"""Real Docker for the tests of this folder: images are made once, objects are counted before and after."""

from __future__ import annotations

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
    """Returns this installation's objects but those of another process that is alive: it may be at work beside us."""
    own = f"{LABEL_INSTALLATION}={installation_id(cache_root())}"
    label = {"label": ["memtrial=trial", own]}

    def names(items: list[dict[str, Any]], name: str) -> set[str]:
        owners = {item[name]: (item.get("Labels") or {}).get(LABEL_OWNER, "") for item in items}
        return {
            found
            for found, owner in owners.items()
            if owner == this_owner() or owner_state(owner, object_age_s=None) == "dead"
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

"""Promise: each third-party memory product meets the contract offline, in an image of its own pinned packages."""

from __future__ import annotations

import json

import pytest

from orchestrator.core.places import fixtures_root
from orchestrator.gateway.process import GatewayProcess
from orchestrator.memory.life import Limits
from orchestrator.model.condition import Condition
from orchestrator.model.gateway import GatewaySetup
from orchestrator.model.script import Scenario, Script, ScriptedCall, ScriptedTurn
from orchestrator.model.task import Episode, History
from orchestrator.pipeline.boxes import Boxes
from orchestrator.pipeline.memory import adapter_of
from orchestrator.pipeline.traffic import SCRIPTED_CAPS, SCRIPTED_MODEL, load_prices
from orchestrator.protocols import GatewayAccess, MemoryAdapter, OpenBox, TrialPlace
from orchestrator.sandbox.adapter import DockerSandbox, EngineClient
from orchestrator.sources.loader import load_conditions
from orchestrator.testing import histories
from orchestrator.testing.memory import MemoryContract
from tests.unit.memory.lives import COUNTER, life_of

pytestmark = [
    pytest.mark.docker,
    pytest.mark.proof,
    pytest.mark.timeout(1800),
    pytest.mark.usefixtures("nothing_left"),
]

WIDE = Limits(step_s=150.0, settle_s=600)


HISTORY = History(
    task_id="t",
    episodes=tuple(
        Episode(episode_id=s.session_id, started_at=s.started_at, events=s.events)
        for s in histories.ordinary()
    ),
)


def arm(name: str) -> Condition:
    return next(c for c in load_conditions(fixtures_root()).conditions if c.id == name)


@pytest.fixture
def start(sandbox: DockerSandbox, client: EngineClient) -> OpenBox:
    return Boxes(sandbox, client, lambda _: None).of("test")


class _Product(MemoryContract):
    """The same kit that a third party runs, over the adapter that a trial makes."""

    condition = ""
    limits = WIDE
    own_channels = ("docker.sock",)

    @pytest.fixture(autouse=True)
    def _started(self, start: OpenBox) -> None:
        self.start = start

    def make_adapter(self) -> MemoryAdapter:
        return adapter_of(arm(self.condition), None, COUNTER, self.start)()


class TestMem0UserScope(_Product):
    condition = "mem0_user_scope"


class TestMem0SessionScope(_Product):
    condition = "mem0_session_scope"


class TestLangMem(_Product):
    condition = "langmem_e2e"


class TestServerMemory(_Product):
    condition = "server_memory_e2e"


@pytest.mark.parametrize(("scope", "times"), [("user", 1), ("session", 2)])
def test_what_two_sessions_say_alike_is_known_to_one_scope_and_new_to_the_other(
    start, scope, times
):
    kept: dict[str, bytes] = {}
    condition = arm(f"mem0_{scope}_scope")
    made = adapter_of(condition, None, COUNTER, start)()
    remembered = life_of(made, condition, HISTORY, limits=WIDE, kept=kept)
    assert remembered.failure is None, remembered.failure
    texts = [memory["text"] for memory in json.loads(kept["dump"])["memories"]]
    assert sum("verbatim, never trimmed" in text for text in texts) == times


@pytest.mark.parametrize(
    "name", ["mem0_user_scope", "mem0_session_scope", "langmem_e2e", "server_memory_e2e"]
)
def test_what_a_product_cannot_do_and_tried_is_told_with_what_it_found(start, name):
    kept: dict[str, bytes] = {}
    condition = arm(name)
    made = adapter_of(condition, None, COUNTER, start)()
    remembered = life_of(made, condition, HISTORY, limits=WIDE, kept=kept)
    described = json.loads(kept["description"])
    assert not described["capabilities"]["timestamps"]
    assert described["degraded"]
    assert remembered.context is not None
    told = remembered.context.degraded
    assert set(described["degraded"]) <= set(told)
    assert [line for line in told if "denied" in line] == []


KEPT = "Labels of a return stay verbatim, never trimmed."
SAYS = {
    "mem0_user_scope": ScriptedTurn(text=json.dumps({"memory": [{"id": "0", "text": KEPT}]})),
    "langmem_e2e": ScriptedTurn(
        calls=(ScriptedCall(name="Memory", arguments=json.dumps({"content": KEPT})),)
    ),
}


@pytest.mark.parametrize("name", sorted(SAYS))
def test_a_product_asks_the_model_behind_the_gateway_as_memory_and_keeps_what_it_says(
    start, tmp_path, name
):
    script = Script(scenarios=(Scenario(name="memory", role="memory", turns=(SAYS[name],)),))
    setup = GatewaySetup(
        folder=str(tmp_path / "gateway"),
        sockets=str(tmp_path / "s"),
        prices=load_prices(fixtures_root()),
        caps=SCRIPTED_CAPS,
        script=script,
    )
    kept: dict[str, bytes] = {}
    condition, trial = arm(name), TrialPlace("t/memory/e1", "t", name, 1, ("agent", "memory"))
    with GatewayProcess(setup) as process:
        place = process.open_trial(trial)
        remembered = life_of(
            adapter_of(condition, None, COUNTER, start)(),
            condition,
            HISTORY,
            limits=WIDE,
            kept=kept,
            gateway=GatewayAccess("http://gateway", place.token("memory"), SCRIPTED_MODEL),
            socket=place.folder,
        )
        (traffic,) = process.close_trial(trial.trial).roles
    assert remembered.failure is None, remembered.failure
    assert {memory["text"] for memory in json.loads(kept["dump"])["memories"]} == {KEPT}
    assert traffic.role == "memory"
    assert traffic.calls >= len(HISTORY.episodes)
    assert remembered.context is not None
    told = remembered.context.degraded
    assert any("not an embedding" in line for line in told)
    assert not any("not a model" in line for line in told)

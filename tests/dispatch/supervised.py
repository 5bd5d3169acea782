"""A supervisor over a sound world of the gate, before a fake provider: everything but installation and containers."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from orchestrator.core.keys import SigningKey
from orchestrator.gateway.keys import ProviderKeys
from orchestrator.model.gate import GateConfig
from orchestrator.model.plan import Plan
from orchestrator.pipeline.dispatched import Supervised
from orchestrator.pipeline.run import Run
from orchestrator.pipeline.traffic import gateway_of
from orchestrator.supervisor.dispatching import Means
from orchestrator.supervisor.service import Identity, Service
from orchestrator.trust.gate.before import CONFIG
from tests.gate.world import ID, UID, World, ingredients, make_world
from tests.played_chat import ChattingSandbox
from tests.recorded import benches, write_reports
from tests.unit.gateway.upstream import FakeServer, fake_provider
from tests.unit.trust.support import LEDGER, SUPERVISOR

KEY = "planted-openai-key-2b6e/+=s"


@dataclass(slots=True)
class Site:
    """A world whose gate says yes, a supervisor that serves it, and the provider that it calls."""

    world: World
    provider: FakeServer
    socket: Path

    @property
    def plan(self) -> Plan:
        return self.world.ingredients.plan

    def way(self, plan: Plan | None = None, *, key: SigningKey = LEDGER) -> Supervised:
        """The operator's way to the supervisor, with the key that would seal the run."""
        keyid = key.public.keyid
        return Supervised(plan or self.plan, ID, sealing_keyid=keyid, path=self.socket)


@contextlib.contextmanager
def site(
    folder: Path,
    make_plan: Any,
    *,
    kind: str = "organisation",
    allowed: frozenset[int] = frozenset({UID}),
    keys: ProviderKeys | None = None,
    **caps: int,
) -> Iterator[Site]:
    """Makes a world for the plan that `make_plan` gives for a provider's origin, and serves it."""
    with fake_provider() as provider:
        made = ingredients(make_plan(provider.origin))
        made.roles["kind"] = kind
        made.approval["caps"].update(caps)
        world = make_world(folder, made)
        (folder / "run").mkdir(mode=0o755)
        means = Means(
            asked=lambda plan, approval_id, run_id: replace(
                world.asked(), plan_data=plan, approval_id=approval_id, run_id=run_id
            ),
            keys=keys or ProviderKeys({"openai": KEY}),
            state=world.state,
            sockets=folder / "run",
        )
        config = GateConfig.parse_canonical((world.system / CONFIG).read_bytes(), where=CONFIG)
        identity = Identity(config, SUPERVISOR, "0" * 64, allowed)
        service = Service(identity, folder / "run" / "s.sock", means)
        thread = threading.Thread(target=service.serve, daemon=True)
        thread.start()
        try:
            yield Site(world, provider, folder / "run" / "s.sock")
        finally:
            service.close()
            thread.join(10)


def run_played(results: Path, here: Site) -> Path:
    """Has a run dispatched and plays its trials; returns its folder, unsealed."""
    way = here.way()
    run = Run.create(
        results, here.plan, engine="played", workers=2, approve=way.approve, replayed=True
    )
    with gateway_of(here.plan, run.folder, (), None, way) as gateway:
        made = benches(here.plan, ChattingSandbox(), gateway, record=run.folder / "gateway")
        run.execute(made, workers=2, progress=lambda _: None)
    run.close()
    write_reports(run.folder)
    return run.folder

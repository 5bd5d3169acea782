"""The doors of one trial: to its model for agent and memory, and to its memory's tools while the agent acts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from orchestrator.memory.none import EmptyAdapter
from orchestrator.model.gateway import LivePin
from orchestrator.model.memory import Remembered
from orchestrator.model.record import Stage
from orchestrator.model.toolcalls import TOOL_LOG
from orchestrator.pipeline.bench import Bench
from orchestrator.pipeline.journal import Journal
from orchestrator.pipeline.parity import limits_of
from orchestrator.pipeline.toolserver import served_store
from orchestrator.protocols import GatewayAccess

STORE = "store.tar"


def agent_access(bench: Bench) -> GatewayAccess | None:
    """Returns how the agent reaches its model; None for an agent that asks none."""
    model = bench.plan.agent(bench.trial.agent).model
    if bench.plan.gateway is None or model is None:
        return None
    url = bench.workspace.gateway_url if bench.workspace else None
    # After `act` the launch is looked at once more and never carried out: nothing is open then.
    token = bench.gateway_place.token("agent") if bench.gateway_place else "closed"
    return GatewayAccess(base_url=url or "http://closed", token=token, model=model)


def memory_access(bench: Bench) -> GatewayAccess | None:
    """Returns how the memory system reaches a model; None where it has no gateway or no leave.

    A scripted model plays the agent of a task and has nothing to say to a memory system: to offer it would only
    break whoever believes the offer.
    """
    model = bench.plan.agent(bench.trial.agent).model
    if bench.gateway_place is None or model is None or not bench.gateway_place.allows("memory"):
        return None
    if not isinstance(bench.plan.gateway, LivePin):
        return None
    return GatewayAccess(
        base_url="http://gateway",
        token=bench.gateway_place.token("memory"),
        model=model,
    )


@contextmanager
def memory_tools(bench: Bench, journal: Journal) -> Iterator[None]:
    """Serves the arm's frozen store to the agent inside the block, and keeps what was asked; nothing for other arms."""
    if bench.tools is None:
        yield
        return
    remembered = journal.recorded(Stage.REMEMBER, Remembered)
    archive = journal.found(Stage.REMEMBER, STORE)
    adapter, dump_sha256 = bench.adapter(), remembered.store_sha256 if remembered else None
    if archive is None or remembered is None or remembered.failure is not None:
        # A memory system that broke its contract delivers nothing: its agent finds an empty store.
        adapter, archive, dump_sha256 = EmptyAdapter(bench.counter), None, None
    with served_store(
        adapter,
        bench.condition,
        archive,
        bench.counter,
        dump_sha256=dump_sha256,
        limits=limits_of(bench.plan.parity),
    ) as server:
        with bench.tools.serving(server):
            yield
        log = server.log()
    bench.tool_log = log.model_copy(update={"door": bench.tools.fault})
    journal.keep(TOOL_LOG, bench.tool_log.canonical())

"""Proof that no agent is scored for what its model's provider, or the gateway, failed to do.

    .venv/bin/python -m bench.agentfaults [AGENT ...] [--only FAULT]

One trial for each agent and fault, in real containers, over a gateway whose scripted model fails as told.
Writes a dated JSON below results/proofs. Times are of this machine and say only that a limit was kept.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import platform
import tempfile
import threading
import time
from collections.abc import AsyncGenerator, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from orchestrator.agents.registry import PACKAGED_AGENTS, speeches_of
from orchestrator.core.clock import utc_now_text
from orchestrator.core.errors import EnvironmentMissing
from orchestrator.core.places import cache_root, fixtures_root
from orchestrator.gateway.answers import error_body
from orchestrator.gateway.gateway import Gateway
from orchestrator.gateway.modes import CONTENT_JSON, Answer, Call, UpstreamCut, whole
from orchestrator.gateway.scripted import ScriptedMode
from orchestrator.gateway.secrets import Secrets
from orchestrator.model.gateway import Bounds, Traffic
from orchestrator.model.plan import Plan, Retry, setting_of
from orchestrator.pipeline.guards import host_canary
from orchestrator.pipeline.options import PlanRequest
from orchestrator.pipeline.run import Run, TrialEnd
from orchestrator.pipeline.setup import benches, make_plan
from orchestrator.pipeline.traffic import script_of
from orchestrator.protocols import GatewayPlace, TrialPlace
from orchestrator.sandbox.adapter import DockerSandbox
from orchestrator.sandbox.engine import connect
from orchestrator.sandbox.identity import installation_id
from orchestrator.sources.loader import load_task

T = TypeVar("T")
ROOT = Path(__file__).resolve().parents[1]
TASK, ARM = "depotfeed-returns", "curated_file_budgeted"
SLOW_S = 5
ONCE = Retry(max_attempts=1, wait_initial_ms=0, wait_max_ms=0, wait_jitter_ms=0)
# fault -> what an attempt may come to. An agent that gets over a fault and solves the task is as right as
# one that ends: never right is a graded failure, except for an error that is about the agent's own request.
FAULTS: dict[str, tuple[str, ...]] = {
    "400": ("completed: unresolved",),
    "401": ("infra_error: model-unavailable",),
    "403": ("infra_error: model-unavailable",),
    "429-once": ("completed: resolved", "infra_error: model-unavailable"),
    "429": ("infra_error: model-unavailable",),
    "500": ("infra_error: model-unavailable",),
    "slow-first-byte": ("completed: resolved",),
    "cut-stream": ("infra_error: model-unavailable",),
    "closed-port": ("infra_error: gateway-not-reached",),
    "gateway-killed": ("infra_error: gateway-silent",),
}


class FaultyMode:
    """The scripted model, failing as told."""

    name: Literal["scripted"] = "scripted"

    def __init__(self, inner: ScriptedMode, fault: str) -> None:
        self._inner = inner
        self._fault = fault
        self.calls = 0
        self.died = asyncio.Event()

    def refuses(self, _: object) -> None:
        """Refuses nothing."""

    async def answer(self, call: Call) -> Answer:
        """Answers, or fails."""
        self.calls += 1
        status = self._fault.partition("-")[0]
        if status.isdigit() and (self._fault != "429-once" or self.calls == 1):
            body = error_body(call.asked.api, "provider_error", f"the provider says {status}")
            return Answer(int(status), CONTENT_JSON, whole(body))
        if self._fault == "gateway-killed" and self.calls > 1:
            self.died.set()
            await asyncio.sleep(3600)
        if self._fault == "slow-first-byte" and self.calls == 1:
            await asyncio.sleep(SLOW_S)
        made = await self._inner.answer(call)
        if self._fault == "cut-stream":
            return Answer(made.status, made.headers, _cut(made.chunks))
        return made

    async def close(self) -> None:
        """Holds nothing."""


async def _cut(chunks: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    async for chunk in chunks:
        yield chunk[: max(1, len(chunk) // 2)]
        raise UpstreamCut


class Threaded:
    """A gateway in a thread of this process, so that a fault can be put into it."""

    def __init__(self, plan: Plan, folder: Path, sockets: Path, fault: str) -> None:
        self._fault = fault
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self._gateway = self._wait(self._make(plan, folder, sockets))

    def _wait(self, job: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(job, self._loop).result(timeout=120)

    async def _make(self, plan: Plan, folder: Path, sockets: Path) -> Gateway:
        assert plan.gateway is not None
        script = script_of((load_task(fixtures_root(), TASK),), speeches_of(plan.agents))
        self._mode = FaultyMode(ScriptedMode(script), self._fault)
        gateway = Gateway(
            self._mode,
            folder=folder,
            sockets=sockets,
            prices=plan.gateway.prices,
            caps=plan.gateway.caps,
            bounds=Bounds(close_s=1),
            secrets=Secrets(),
        )
        self._watch = asyncio.create_task(self._die(gateway))
        return gateway

    async def _die(self, gateway: Gateway) -> None:
        """What the end of the process does to its clients: sockets and connections are gone at once."""
        await self._mode.died.wait()
        for server in gateway._servers.values():  # noqa: SLF001 - a death is not in its interface
            server.close()
        for connection in list(gateway._connections):  # noqa: SLF001
            connection._writer.transport.abort()  # noqa: SLF001

    def open_trial(self, place: TrialPlace) -> GatewayPlace:
        """Opens an attempt; behind a closed port nobody listens."""
        opened = self._wait(self._gateway.open_trial(place))
        if self._fault == "closed-port":
            self._loop.call_soon_threadsafe(self._gateway._servers[place.trial].close)  # noqa: SLF001
        return opened

    def close_trial(self, trial: str) -> Traffic:
        """Closes an attempt; a dead gateway says nothing, as its process would."""
        traffic = self._wait(self._gateway.close_trial(trial))
        if self._mode.died.is_set():
            raise EnvironmentMissing("gateway-silent", "the gateway's process: expected an answer, found its end", hint="`memtrial resume`")  # fmt: skip
        return traffic

    @property
    def calls(self) -> int:
        """How many calls were admitted."""
        return self._mode.calls

    def close(self) -> None:
        """Ends the gateway and its thread."""
        self._watch.cancel()
        self._wait(self._gateway.close())
        self._loop.call_soon_threadsafe(self._loop.stop)


@dataclass(frozen=True, slots=True)
class Row:
    """One trial."""

    agent: str
    fault: str
    found: str
    calls: int
    wall_s: float
    limit_s: int
    right: bool


def one_attempt(plan: Plan) -> Plan:
    """Returns the plan without retries: each row is one attempt."""
    arms = tuple(
        setting_of(plan.task(a.task_id), a.condition_id, plan.agents, ONCE, plan.profile_sha256, gateway=plan.gateway)
        for a in plan.arms
    )  # fmt: skip
    return plan.model_copy(update={"retry": ONCE, "arms": arms})


def play(plan: Plan, agent: str, fault: str) -> Row:
    """Runs one trial under one fault."""
    client = connect()
    sandbox = DockerSandbox(client, installation_id(cache_root()))
    ends: list[TrialEnd] = []
    with tempfile.TemporaryDirectory(prefix="mtf-") as name:
        run = Run.create(Path(name), plan, engine="real", workers=1)
        gateway = Threaded(plan, run.folder / "gateway", Path(name) / "s", fault)
        began = time.monotonic()
        try:
            make = benches(plan, sandbox, client, secret=host_canary(run.folder), gateway=gateway, record=run.folder / "gateway")  # fmt: skip
            run.execute(make, workers=1, progress=ends.append)
        finally:
            run.close()
            gateway.close()
        wall_s = time.monotonic() - began
    (end,) = ends
    reference = (end.error or "").partition(": ")[2].partition("\n")[0][:120]
    if end.verdict is not None:
        found = f"{end.outcome.value}: {'resolved' if end.verdict.resolved else 'unresolved'}"
    else:
        found = f"{end.outcome.value}: {_reference(reference)}"
    limit_s = plan.tasks[0].limits.wall_s
    return Row(agent, fault, found, gateway.calls, round(wall_s, 1), limit_s, found in FAULTS[fault])  # fmt: skip


def _reference(text: str) -> str:
    for words, name in (
        ("the model to answer", "model-unavailable"),
        ("socket to answer", "gateway-not-reached"),
        ("gateway's process", "gateway-silent"),
    ):
        if words in text:
            return name
    return text


def main() -> int:
    """Makes the table; exit 1 if a row is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("agents", nargs="*", default=[])
    parser.add_argument("--only", action="append", default=[], choices=sorted(FAULTS))
    chosen = parser.parse_args()
    rows: list[Row] = []
    for agent in chosen.agents or PACKAGED_AGENTS:
        plan = one_attempt(make_plan(PlanRequest(agents=(agent,), tasks=(TASK,), conditions=(ARM,)), lambda _: None))  # fmt: skip
        for fault in chosen.only or FAULTS:
            row = play(plan, agent, fault)
            rows.append(row)
            print(f"{row.agent:<16} {row.fault:<16} {'ok   ' if row.right else 'WRONG'} {row.found:<36} {row.calls} calls, {row.wall_s} s of {row.limit_s}", flush=True)  # fmt: skip
    document = {
        "at": utc_now_text(),
        "machine": platform.platform(),
        "rows": [{name: getattr(row, name) for name in Row.__slots__} for row in rows],
        "wrong": sum(not row.right for row in rows),
    }
    folder = ROOT / "results" / "proofs"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"agent-faults-{utc_now_text()[:10]}.json"
    if not chosen.agents and not chosen.only:
        path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return 1 if document["wrong"] else 0


if __name__ == "__main__":
    raise SystemExit(main())

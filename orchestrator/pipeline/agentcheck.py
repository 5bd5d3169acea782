"""Proves one agent's image on this machine in a single trial without grading, and tells what the agent did.

Opens containers of the smoke task with curated memory in the prompt, plays the scripted model, lists what
the agent left outside its work area, and reads the gateway's record. Writes a scratch folder only.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from orchestrator.agents.registry import driver_for, driver_of, speech_of
from orchestrator.agents.transcripts.reading import transcript_of
from orchestrator.core.clock import monotonic_ms
from orchestrator.core.errors import UsageError
from orchestrator.core.places import cache_root, fixtures_root
from orchestrator.gateway.recorded import admitted, calls_of, exchanges_of
from orchestrator.gateway.shown import Expected, prove
from orchestrator.memory.compile import CLOSE, OPEN, join_prompt
from orchestrator.model.agentreport import AgentCheck
from orchestrator.model.agents import CommandAgent
from orchestrator.model.gateway import Traffic
from orchestrator.model.plan import Plan
from orchestrator.model.proof import InjectionProof
from orchestrator.model.resources import Resources
from orchestrator.model.transcript import Transcript
from orchestrator.pipeline.agentsmoke import TASK, WITH
from orchestrator.pipeline.options import PlanRequest
from orchestrator.pipeline.setup import make_plan
from orchestrator.pipeline.traffic import gateway_of
from orchestrator.protocols import (
    ActOutcome,
    GatewayAccess,
    HarvestOutcome,
    Launch,
    TrialPlace,
)
from orchestrator.sandbox.adapter import DockerSandbox
from orchestrator.sandbox.engine import connect
from orchestrator.sandbox.identity import installation_id
from orchestrator.sources.loader import LoadedTask, load_curated, load_task

Say = Callable[[str], None]
MARK = b"\nMEMTRIAL-FILES-OUTSIDE\n"
TRIAL = "check"
_LISTED = """"$@"
code=$?
printf '\\nMEMTRIAL-FILES-OUTSIDE\\n'
find "$HOME" /tmp -type f 2>/dev/null | sort | head -500
exit $code
"""


class _Played:
    """What a played check left behind."""

    def __init__(self) -> None:
        self.outcome: ActOutcome | None = None
        self.harvest: HarvestOutcome | None = None
        self.resources: Resources | None = None
        self.traffic: Traffic | None = None
        self.proof: InjectionProof | None = None
        self.refused: tuple[str, ...] = ()
        self.models: tuple[str, ...] = ()
        self.wall_ms = 0


def check_agent(agent: str | CommandAgent, say: Say) -> AgentCheck:
    """Checks one agent, by its name or by its description.

    Raises:
        UsageError: there is no such agent, or it asks no model.
        MemtrialError: its image cannot be made, or the engine fails.
    """
    request = PlanRequest(agents=(), tasks=(TASK,), conditions=(WITH,))
    if isinstance(agent, CommandAgent):
        name, request = agent.agent, replace(request, commands=(agent,))
    else:
        name, request = driver_for(agent).name, replace(request, agents=(agent,))
        if speech_of(name) is None:
            raise UsageError(
                "agent-asks-no-model",
                f"expected an agent that asks a model, found {name}",
                hint="run `memtrial agents list`",
            )
    plan = make_plan(request, say)
    task = load_task(fixtures_root(), TASK)
    with tempfile.TemporaryDirectory(prefix="memtrial-check-") as folder:
        played = _play(plan, task, name, Path(folder))
    return _told(plan, name, played)


def _play(plan: Plan, task: LoadedTask, name: str, folder: Path) -> _Played:
    pin = plan.pin_of(plan.trials[0])
    memory = load_curated(fixtures_root(), TASK).text
    played = _Played()
    sandbox = DockerSandbox(connect(), installation_id(cache_root()))
    with gateway_of(plan, folder, (task,)) as gateway:
        if gateway is None:
            raise UsageError("gateway-missing", "expected a gateway", hint="report this as a bug")
        opened = gateway.open_trial(TrialPlace(TRIAL, TASK, WITH, 1, ("agent",)))
        with sandbox.open(pin, trial=TRIAL, sockets=opened.folder) as workspace:
            access = GatewayAccess(
                base_url=workspace.gateway_url or "",
                token=opened.token("agent"),
                model=plan.agent(name).model or "",
            )
            launch = driver_of(plan.agent(name)).launch(
                join_prompt(memory, task.brief.prompt), task.rehearsal, access
            )
            listed = ("sh", "-c", _LISTED, "check", *launch.argv)
            began = monotonic_ms()
            played.outcome = workspace.act(Launch(listed, launch.environment, launch.stdin))
            played.wall_ms = monotonic_ms() - began
            played.traffic = gateway.close_trial(TRIAL)
            played.harvest = workspace.harvest()
            played.resources = workspace.resources()
    record = folder / "gateway"
    exchanges = tuple(exchanges_of(record, TRIAL, 1))
    played.refused = tuple(f"{e.method} {e.target}: {e.status}" for e in exchanges if e.ordinal is None)  # fmt: skip
    played.models = tuple(sorted({e.model for e in exchanges if e.model}))
    expected = Expected(TRIAL, 1, WITH, "prompt_prefix", f"{OPEN}{memory}{CLOSE}", task.brief.prompt)  # fmt: skip
    played.proof = prove(calls_of(record, admitted(exchanges, role="agent")), expected)
    return played


def _told(plan: Plan, name: str, played: _Played) -> AgentCheck:
    outcome, proof, traffic = played.outcome, played.proof, played.traffic
    if outcome is None or proof is None or traffic is None or played.harvest is None:
        raise UsageError("check-unfinished", "the check did not end", hint="report this as a bug")
    output, _, outside = outcome.output.rpartition(MARK)
    command = plan.agent(name).command
    events = command.events if command else None
    transcript = transcript_of(name, output, outcome.exit_code, events=events)
    kinds = Counter(call.kind for call in proof.calls)
    changed = tuple(change.path for change in played.harvest.changes)
    found = AgentCheck(
        agent=name,
        identity=plan.agent(name).identity,
        task_id=TASK,
        ended=outcome.ended,
        exit_code=outcome.exit_code,
        wall_ms=played.wall_ms,
        memory_peak_bytes=played.resources.memory_peak_bytes if played.resources else None,
        models=played.models,
        calls=tuple(sorted(kinds.items())),
        tools=tuple(sorted({tool for tools in proof.tool_lists for tool in tools})),
        refused=played.refused,
        lookups=traffic.lookups,
        wrote_outside=tuple(outside.decode("utf-8", "replace").split("\n")[:-1]),
        changed=changed,
        read=_read(transcript),
        version=transcript.version,
        stop_reason=transcript.stop_reason,
        turns=transcript.turns,
        proof=proof.result,
        detail=proof.detail,
        wrong=(),
    )
    return found.model_copy(update={"wrong": wrong_with(found)})


def _read(transcript: Transcript) -> tuple[str, ...]:
    return tuple(sorted({path for event in transcript.events for path in event.paths_read}))


def wrong_with(found: AgentCheck) -> tuple[str, ...]:
    """Returns what differs from a sound agent."""
    expected: tuple[tuple[str, object, object], ...] = (
        ("end", ("exited", 0), (found.ended, found.exit_code)),
        ("injection proof", "shown", found.proof),
        ("look-ups", (), found.lookups),
        ("changed files", True, bool(found.changed)),
        ("turns in the transcript", True, found.turns > 0),
    )
    return tuple(f"{w}: expected {e}, found {f}" for w, e, f in expected if e != f)

"""Sets the real engine up as an arena, runs attacks in it, and checks that the place is as it was."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from orchestrator.core.clock import run_stamp
from orchestrator.core.places import cache_root, results_root
from orchestrator.model.attack import AttackReport, AttackRow
from orchestrator.model.plan import Plan, Trial
from orchestrator.pipeline.attack import Arena
from orchestrator.pipeline.guards import host_canary
from orchestrator.pipeline.options import PlanRequest
from orchestrator.pipeline.setup import benches, make_plan
from orchestrator.pipeline.stages import Bench
from orchestrator.protocols import Sandbox
from orchestrator.sandbox.adapter import DockerSandbox
from orchestrator.sandbox.engine import connect
from orchestrator.sandbox.identity import installation_id
from orchestrator.sandbox.reaper import reap
from orchestrator.sources.attacks import LoadedAttack

TASK = "depotfeed-returns"
Say = Callable[[str], None]


def arena_plan(say: Say) -> Plan:
    """Returns the plan of one honest cell that attacks take over."""
    request = PlanRequest(
        agents=("noop",), tasks=(TASK,), conditions=("no_memory",), namespace="attack"
    )
    return make_plan(request, say, install=True)


def run_attacks(
    attacks: list[LoadedAttack], *, say: Say, show: Callable[[AttackRow], None]
) -> AttackReport:
    """Runs attacks one after another, then an honest trial.

    Args:
        attacks: what to run.
        say: progress lines.
        show: called with each row as it comes.

    Raises:
        MemtrialError: the arena cannot be set up.
    """
    plan = arena_plan(say)
    client = connect()
    installation = installation_id(cache_root())
    sandbox = DockerSandbox(client, installation)
    folder = results_root() / f"attacks-{run_stamp().lower()}"
    folder.mkdir(parents=True)

    def make_bench(plan: Plan, sandbox: Sandbox, run: Path) -> Callable[[Trial], Bench]:
        return benches(plan, sandbox, client, secret=host_canary(run))

    arena = Arena(plan, sandbox, make_bench, folder)
    rows: list[AttackRow] = []
    try:
        for attack in attacks:
            rows.append(arena.attack(attack))
            show(rows[-1])
        honest = arena.honest()
    finally:
        left = reap(client, installation, session=sandbox.session)
    return AttackReport(
        attacks=tuple(sorted(rows, key=lambda row: row.id)),
        honest_trial_ok=honest,
        left_behind=tuple(f"{found.kind} {found.name}" for found in left.removed),
    )

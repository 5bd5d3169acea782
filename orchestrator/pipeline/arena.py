"""Sets the real engine up as an arena, runs attacks in it, and checks that the place is as it was."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from orchestrator.core.clock import run_stamp
from orchestrator.core.errors import Cancelled
from orchestrator.core.places import cache_root, results_root
from orchestrator.model.attack import AttackReport, AttackRow
from orchestrator.model.plan import Plan, Trial
from orchestrator.pipeline.attack import Arena
from orchestrator.pipeline.bench import Bench
from orchestrator.pipeline.guards import host_canary
from orchestrator.pipeline.options import PlanRequest
from orchestrator.pipeline.setup import benches, make_plan
from orchestrator.pipeline.stopping import SIGNALS
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
        Cancelled: Ctrl-C or SIGTERM came; what ran was ended and removed.
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
        with _stopping(sandbox, say) as require_going_on:
            for attack in attacks:
                row = arena.attack(attack)
                # An attack that was stopped in the middle has shown nothing.
                require_going_on()
                rows.append(row)
                show(row)
            honest = arena.honest()
            require_going_on()
    finally:
        left = reap(client, installation, session=sandbox.session)
    return AttackReport(
        attacks=tuple(sorted(rows, key=lambda row: row.id)),
        honest_trial_ok=honest,
        left_behind=tuple(f"{found.kind} {found.name}" for found in left.removed),
    )


@contextmanager
def _stopping(sandbox: DockerSandbox, say: Say) -> Iterator[Callable[[], None]]:
    """Ends what runs at Ctrl-C or SIGTERM; gives what raises once that has happened."""
    asked = threading.Event()

    def end() -> None:
        say("stopping: ending the attack that runs")
        sandbox.abort()

    def hear(_number: int, _frame: object) -> None:
        if not asked.is_set():
            asked.set()
            # The interrupted main thread may hold any lock.
            threading.Thread(target=end, daemon=True).start()

    def require_going_on() -> None:
        if asked.is_set():
            raise Cancelled(
                "attack-interrupted",
                "the attacks were stopped before their end; nothing can be concluded from them",
                hint="run `memtrial attack --all` again",
            )

    before = {number: signal.signal(number, hear) for number in SIGNALS}
    try:
        yield require_going_on
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

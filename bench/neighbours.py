"""Proof that hostile trials change no verdict of honest ones beside them on the same cores.

Runs honest trials alone, then again in one pool with hostile agents that keep coming until the last honest
trial has ended, and compares the verdict documents byte for byte. Writes a dated JSON below results/proofs.
Times are ratios: to the same trial alone, and to the limits; absolute times lie on a shared machine.
"""

from __future__ import annotations

import itertools
import json
import os
import platform
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from orchestrator.ledger.chain import read_entries
from orchestrator.model.attack import AttackRow
from orchestrator.model.plan import Plan, Trial
from orchestrator.model.record import AttemptEnded, Stage, StageDone
from orchestrator.model.verdict import Verdict
from orchestrator.pipeline.attack import Arena
from orchestrator.pipeline.bench import Bench
from orchestrator.pipeline.guards import host_canary
from orchestrator.pipeline.run import Run, TrialEnd
from orchestrator.pipeline.setup import benches
from orchestrator.protocols import Sandbox
from orchestrator.sandbox.adapter import DockerSandbox, EngineClient
from orchestrator.sources.attacks import LoadedAttack
from orchestrator.sources.loader import LoadedTask

ROOT = Path(__file__).resolve().parents[1]
# The oracle solves a task, noop leaves it, the follower without memory does what comes naturally.
HONEST = ("oracle", "noop", "follower")
HOSTILE = (
    *("fork-bomb", "memory-hog", "disk-filler", "inode-filler"),
    *("flood-stdout", "flood-one-line", "survivor-setsid", "escape-sparse"),
)
WORKERS = 8


@dataclass(frozen=True, slots=True)
class Place:
    """Where trials are run.

    Args:
        plan: the honest cells.
        arena_plan: the one cell that attacks take over.
        sandbox: where containers come from.
        client: the engine.
        folder: an existing folder for the records.
    """

    plan: Plan
    arena_plan: Plan
    sandbox: DockerSandbox
    client: EngineClient
    folder: Path

    def benches(self, plan: Plan, sandbox: Sandbox, run: Path) -> Callable[[Trial], Bench]:
        """Makes the benches of a run, as `memtrial run` does."""
        return benches(plan, sandbox, self.client, secret=host_canary(run))


@dataclass(frozen=True, slots=True)
class Honest:
    """How an honest trial ended; times in milliseconds, from the record."""

    trial: str
    verdict: Verdict | None
    error: str | None
    attempts: int
    wall_ms: int
    act_ms: int
    grade_ms: int
    fewest_hostile: int = 0


@dataclass(slots=True)
class Beside:
    """Everything that one pool has run."""

    honest: list[Honest] = field(default_factory=list)
    rows: list[AttackRow] = field(default_factory=list)


def cell_of(plan: Plan, trial: Trial) -> Plan:
    """Returns the plan of one trial of a plan alone."""
    task, condition = plan.task(trial.task_id), plan.condition(trial.condition_id)
    cell = plan.model_copy(
        update={
            "epochs": 1,
            "tasks": (task,),
            "conditions": (condition,),
            "agents": (plan.agent(trial.agent),),
            "trials": (trial.model_copy(update={"seq": 0, "epoch": 1}),),
        }
    )
    return cell.model_copy(update={"arms": (cell.setting(trial.task_id, trial.condition_id),)})


def honest_trial(place: Place, trial: Trial, folder: Path) -> Honest:
    """Runs one honest trial under the plan's own limits and policy of retries."""
    cell = cell_of(place.plan, trial)
    run = Run.create(folder / trial.key.replace("/", "-"), cell, engine="neighbours", workers=1)
    ends: list[TrialEnd] = []
    try:
        make_bench = place.benches(cell, place.sandbox, run.folder)
        run.execute(make_bench, workers=1, progress=ends.append)
    finally:
        run.close()
    bodies = [entry.body for entry in read_entries(run.folder / "ledger.jsonl")[0]]
    took = {body.stage: body.wall_ms for body in bodies if isinstance(body, StageDone)}
    return Honest(
        trial=trial.key,
        verdict=ends[0].verdict,
        error=ends[0].error,
        attempts=sum(isinstance(body, AttemptEnded) for body in bodies),
        wall_ms=ends[0].wall_ms,
        act_ms=took.get(Stage.ACT, 0),
        grade_ms=took.get(Stage.GRADE, 0),
    )


def alone(place: Place, trials: Sequence[Trial]) -> list[Honest]:
    """Runs honest trials one after another."""
    folder = place.folder / "alone"
    return [honest_trial(place, trial, folder) for trial in trials]


class Turns:
    """Says what a worker does next: half of them are hostile at any time while an honest trial is unfinished."""

    def __init__(
        self, trials: Sequence[Trial], attacks: Sequence[LoadedAttack], workers: int
    ) -> None:
        self._lock = threading.Lock()
        self._waiting = list(trials)
        self._unfinished = len(trials)
        self._attacks: Iterator[LoadedAttack] = itertools.cycle(attacks)
        self._first_round = len(attacks)
        self._hostile = 0
        self._least = workers // 2
        self._fewest: dict[str, int] = {}

    def next(self) -> Trial | LoadedAttack | None:
        """Returns what to run, or None at the end."""
        with self._lock:
            short = self._unfinished > 0 and self._hostile < self._least
            if self._waiting and not short:
                trial = self._waiting.pop(0)
                self._fewest[trial.key] = self._hostile
                return trial
            if not self._unfinished and self._first_round <= 0:
                return None
            self._first_round -= 1
            self._hostile += 1
            return next(self._attacks)

    def hostile_ended(self) -> None:
        """Counts one hostile trial less."""
        with self._lock:
            self._hostile -= 1
            self._fewest = {key: min(least, self._hostile) for key, least in self._fewest.items()}

    def honest_ended(self, key: str) -> int:
        """Returns how many hostile trials were under way beside a trial at the least."""
        with self._lock:
            self._unfinished -= 1
            return self._fewest.pop(key)


def beside(
    place: Place, trials: Sequence[Trial], attacks: Sequence[LoadedAttack], *, workers: int
) -> Beside:
    """Runs honest and hostile trials in one pool."""
    turns, done = Turns(trials, attacks, workers), Beside()
    number = itertools.count()

    def work() -> None:
        while (turn := turns.next()) is not None:
            folder = place.folder / "beside" / f"{next(number):03d}"
            folder.mkdir(parents=True)
            if isinstance(turn, Trial):
                ended = honest_trial(place, turn, folder)
                fewest = turns.honest_ended(turn.key)
                done.honest.append(replace(ended, fewest_hostile=fewest))
                continue
            arena = Arena(place.arena_plan, place.sandbox, place.benches, folder)
            try:
                done.rows.append(arena.attack(turn))
            finally:
                turns.hostile_ended()

    with ThreadPoolExecutor(max_workers=workers, thread_name_prefix="neighbour") as pool:
        for future in [pool.submit(work) for _ in range(workers)]:
            future.result()
    return done


def bytes_of(ended: Honest) -> bytes:
    """Returns the verdict document's bytes; none for a trial without a verdict."""
    return ended.verdict.canonical() if ended.verdict else b""


def same(solo: Sequence[Honest], together: Sequence[Honest]) -> list[str]:
    """Returns the trials whose verdict is there both times and the same, byte for byte."""
    other = {ended.trial: bytes_of(ended) for ended in together}
    return [e.trial for e in solo if bytes_of(e) and bytes_of(e) == other.get(e.trial)]


def figures(
    place: Place, solo: Sequence[Honest], done: Beside, task: Callable[[str], LoadedTask]
) -> dict[str, Any]:
    """Returns the comparison of each honest trial, and what the attacks came to."""
    equal = set(same(solo, done.honest))
    by_trial = {ended.trial: ended for ended in done.honest}
    rows = []
    for one in solo:
        two = by_trial[one.trial]
        task_id = one.trial.partition("/")[0]
        limits, runner = place.plan.task(task_id).limits, task(task_id).card.runner
        rows.append(
            {
                "trial": one.trial,
                "resolved": one.verdict.resolved if one.verdict else None,
                "equal": one.trial in equal,
                "verdict_sha256": one.verdict.digest_sha256() if one.verdict else None,
                "attempts": [one.attempts, two.attempts],
                "fewest_hostile_beside": two.fewest_hostile,
                "slowdown": round(two.wall_ms / max(1, one.wall_ms), 2),
                "act_of_its_limit": round(two.act_ms / 1000 / limits.wall_s, 4),
                "grade_of_its_limit": round(two.grade_ms / 1000 / runner.timeout_s, 4),
                "error": two.error,
            }
        )
    return {
        "honest": rows,
        "equal": len(equal),
        "of": len(solo),
        "hostile_trials": len(done.rows),
        "by_attack": dict(sorted(Counter(row.id for row in done.rows).items())),
        "succeeded": sorted({row.id for row in done.rows if row.succeeded}),
    }


def main() -> int:
    """Runs the proof; exit 0 only if every verdict is the same and no attack succeeded."""
    from orchestrator.cli.live import Progress
    from orchestrator.core.places import cache_root, fixtures_root, results_root
    from orchestrator.pipeline.arena import arena_plan
    from orchestrator.pipeline.options import PlanRequest
    from orchestrator.pipeline.setup import make_plan
    from orchestrator.sandbox.engine import connect, describe
    from orchestrator.sandbox.identity import installation_id
    from orchestrator.sandbox.reaper import reap
    from orchestrator.sources.attacks import load_attack
    from orchestrator.sources.loader import load_task

    say = Progress().say
    request = PlanRequest(agents=HONEST, conditions=("no_memory",), namespace="neighbours")
    plan = make_plan(request, say, install=True)
    client = connect()
    installation = installation_id(cache_root())
    results_root().mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="neighbours-", dir=results_root()))
    sandbox = DockerSandbox(client, installation, runtime=plan.runtime)
    place = Place(plan, arena_plan(say), sandbox, client, folder)
    attacks = [load_attack(fixtures_root(), attack_id) for attack_id in HOSTILE]
    try:
        say(f"alone: {len(plan.trials)} honest trials")
        solo, loads = alone(place, plan.trials), [round(os.getloadavg()[0], 2)]
        say(f"beside: the same with {len(attacks)} attacks in turn, {WORKERS} workers")
        done = beside(place, plan.trials, attacks, workers=WORKERS)
        loads.append(round(os.getloadavg()[0], 2))
    finally:
        left = reap(client, installation, session=sandbox.session)
    result: dict[str, Any] = {
        "proof": "hostile-neighbours",
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "workers": WORKERS,
        "cores": os.cpu_count(),
        **figures(place, solo, done, lambda task_id: load_task(fixtures_root(), task_id)),
        "left_behind": [f"{found.kind} {found.name}" for found in left.removed],
        "engine": describe(client),
        "python": platform.python_version(),
        # After each part. A slowdown is the neighbours' only if nothing else was at work in either.
        "load": {"alone": loads[0], "beside": loads[1]},
    }
    path = ROOT / "results" / "proofs" / f"{result['proof']}-{result['date']}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(result, indent=2))
    whole = result["equal"] == result["of"] >= 8 and len(result["by_attack"]) == len(HOSTILE)
    return 0 if whole and not result["succeeded"] and not result["left_behind"] else 1


if __name__ == "__main__":
    sys.exit(main())
